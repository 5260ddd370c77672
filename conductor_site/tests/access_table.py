"""Who gets what at each URL: the status code for each role.

Columns: method, name of the URL, the thing in the test's world that it shows (- for none), then what anonymous,
outsider, viewer, operator, reviewer and administrator get. The outsider is administrator of another lab.
"""

from typing import Any

ROLES = ("anonymous", "outsider", "viewer", "operator", "reviewer", "administrator")

TABLE = """
GET    home                    -          302 200 200 200 200 200
GET    login                   -          200 302 302 302 302 302
POST   logout                  -          302 302 302 302 302 302
GET    healthz                 -          503 503 503 503 503 503
GET    runs:list               -          302 200 200 200 200 200
GET    gates:detail            gate       302 404 200 200 200 200
GET    gates:evidence          gate,evidence 302 404 404 404 404 404
GET    record:decisions        -          302 200 200 200 200 200
GET    record:decision         decision   302 404 200 200 200 200
GET    jobs:targets            -          302 200 200 200 200 200
GET    jobs:target             target     302 404 200 200 200 200

GET    api:schema              -          401 200 200 200 200 200
POST   api:token               -          201 201 201 201 201 201
GET    api:token               -          401 200 200 200 200 200
DELETE api:token               -          401 400 400 400 400 400
DELETE api:one-token           -          401 404 404 404 404 404

GET    api:lab-list            -          401 200 200 200 200 200
GET    api:lab-detail          lab        401 404 200 200 200 200
GET    api:decision-list       -          401 200 200 200 200 200
GET    api:decision-detail     decision   401 404 200 200 200 200
GET    api:event-list          -          401 200 200 200 200 200
GET    api:event-detail        event      401 404 200 200 200 200
GET    api:target-list         -          401 200 200 200 200 200
GET    api:target-detail       target     401 404 200 200 200 200
GET    api:job-list            -          401 200 200 200 200 200
GET    api:job-detail          job        401 404 200 200 200 200
GET    api:job-log             job        401 404 200 200 200 200
POST   api:job-cancel          job        401 404 403 200 403 200
GET    api:gate-list           -          401 200 200 200 200 200
GET    api:gate-detail         gate       401 404 200 200 200 200
GET    api:evidence-list       -          401 200 200 200 200 200
GET    api:evidence-detail     evidence   401 404 200 200 200 200
GET    api:pipeline-list       -          401 200 200 200 200 200
GET    api:pipeline-detail     pipeline   401 404 200 200 200 200
GET    api:run-list            -          401 200 200 200 200 200
GET    api:run-detail          run        401 404 200 200 200 200
GET    api:phase-list          -          401 200 200 200 200 200
GET    api:phase-detail        phase      401 404 200 200 200 200
GET    api:tilt-series-list    -          401 200 200 200 200 200
GET    api:tilt-series-detail  series     401 404 200 200 200 200
"""

# What is sent with a POST, by the URL's name.
BODIES: dict[str, dict[str, Any]] = {
    "api:token": {"username": "viewer", "password": "a long enough password"},
}

# Values of the parameters of URLs that name no thing of the world.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "api:one-token": {"token_key": "nobodys"},
}
