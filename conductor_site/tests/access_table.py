"""Who gets what at each URL: the status code for each role.

Columns: method, name of the URL, the thing in the test's world that it shows (- for none), then what anonymous,
outsider, viewer, operator, reviewer and administrator get. The outsider is administrator of another lab.
"""

from hashlib import sha256
from typing import Any

ROLES = ("anonymous", "outsider", "viewer", "operator", "reviewer", "administrator")

TABLE = """
GET    home                    -          302 200 200 200 200 200
GET    login                   -          200 302 302 302 302 302
POST   logout                  -          302 302 302 302 302 302
GET    healthz                 -          503 503 503 503 503 503
GET    metrics                 -          404 404 404 404 404 404
GET    account:me              -          302 200 200 200 200 200
GET    account:password        -          302 200 200 200 200 200
POST   account:password        -          302 400 400 400 400 400
POST   account:new-token       -          302 200 200 200 200 200
POST   account:revoke-token    -          302 404 404 404 404 404
GET    join                    -          410 410 410 410 410 410
GET    new-password            -          410 410 410 410 410 410
GET    forgotten               -          200 200 200 200 200 200
POST   forgotten               -          200 200 200 200 200 200
GET    oidc-begin              -          404 404 404 404 404 404
GET    oidc-callback           -          404 404 404 404 404 404
GET    labs:members            lab        302 404 200 200 200 200
POST   labs:add                lab        302 404 403 403 403 302
GET    labs:member             lab,member 302 404 403 403 403 200
POST   labs:member             lab,member 302 404 403 403 403 302
POST   labs:password-link      lab,member 302 404 403 403 403 200
POST   labs:agent-token        lab,agent_user 302 404 403 403 403 200
POST   labs:revoke-agent-token lab,agent_user,agent_token 302 404 403 403 403 302
POST   labs:close-agent        lab,agent_user 302 404 403 403 403 302
POST   labs:invite             lab        302 404 403 403 403 200
POST   labs:revoke-invitation  lab,invitation 302 404 403 403 403 302
POST   labs:new-agent          lab        302 404 403 403 403 302
GET    runs:list               -          302 200 200 200 200 200
GET    runs:new                -          302 200 403 200 403 200
POST   runs:new                -          302 200 403 302 403 302
GET    runs:detail             run        302 404 200 200 200 200
GET    runs:settings           run        302 404 200 200 200 200
POST   runs:settings           run        302 404 403 302 403 302
GET    runs:pixels             run        302 404 200 200 200 200
POST   runs:check-settings     run        302 404 403 200 403 200
GET    runs:preflight          run        302 404 200 200 200 200
POST   runs:preflight          run        302 404 403 302 403 302
GET    runs:upgrade            run        302 404 403 200 403 200
POST   runs:upgrade            run        302 404 403 409 403 409
GET    runs:species            run        302 404 403 200 403 200
POST   runs:species            run        302 404 403 302 403 302
GET    runs:events             run        302 404 200 200 200 200
GET    runs:phase              phase      302 404 200 200 200 200
GET    runs:pause              run        302 404 403 200 403 200
POST   runs:pause              run        302 404 403 302 403 302
GET    runs:resume             run        302 404 403 200 403 200
POST   runs:resume             paused_run 302 404 403 302 403 302
GET    runs:cancel             run        302 404 403 200 403 200
POST   runs:cancel             run        302 404 403 302 403 302
GET    runs:archive            run        302 404 403 200 403 200
POST   runs:archive            cancelled_run 302 404 403 302 403 302
GET    runs:check              phase      302 404 403 200 403 200
POST   runs:check              phase      302 404 403 302 403 302
GET    runs:restore            run        302 404 403 200 403 200
POST   runs:restore            run        302 404 403 409 403 409
GET    runs:stage              phase      302 404 403 200 403 200
POST   runs:stage              phase      302 404 403 409 403 409
GET    runs:export             run        302 404 403 200 403 200
POST   runs:export             run        302 404 403 302 403 302
GET    runs:leave-alone        run        302 404 403 200 403 200
POST   runs:leave-alone        paused_run 302 404 403 302 403 302
GET    runs:retry              phase      302 404 403 200 403 200
POST   runs:retry              failed_phase 302 404 403 302 403 302
GET    runs:skip               phase      302 404 403 200 403 200
POST   runs:skip               phase      302 404 403 302 403 302
GET    runs:again              phase      302 404 403 200 403 200
POST   runs:again              failed_phase 302 404 403 302 403 302
GET    runs:drop               species    302 404 403 403 200 200
POST   runs:drop               species    302 404 403 403 409 409
GET    runs:bring-back         species    302 404 403 403 200 200
POST   runs:bring-back         species    302 404 403 403 409 409
GET    runs:exclude            series     302 404 403 403 200 200
POST   runs:exclude            series     302 404 403 403 302 302
GET    runs:include            series     302 404 403 403 200 200
POST   runs:include            series     302 404 403 403 302 302
GET    gates:detail            gate       302 404 200 200 200 200
GET    gates:evidence          gate,evidence 302 404 200 200 200 200
GET    gates:pulse             gate       302 404 204 204 204 204
POST   gates:decide            gate       302 404 403 403 302 302
POST   gates:consequence       gate       302 404 200 200 200 200
GET    gates:advice            ask        302 404 302 302 302 302
POST   gates:ask-agents        advised_gate 302 404 403 302 302 302
GET    gates:asks              gate       302 404 200 200 200 200
POST   gates:delegate          gate       302 404 403 403 302 400
POST   gates:reopen            ended_gate 302 404 403 403 302 302
POST   gates:withdraw          gate       302 404 403 302 302 302
POST   gates:prepare-again     unprepared_gate 302 404 403 302 302 302
POST   gates:apply-again       unapplied_gate 302 404 403 302 302 302
GET    record:decisions        -          302 200 200 200 200 200
GET    record:decision         decision   302 404 200 200 200 200
GET    jobs:targets            -          302 200 200 200 200 200
GET    jobs:target             target     302 404 200 200 200 200
POST   jobs:check              target     302 404 403 200 403 200
GET    jobs:agents             -          302 200 200 200 200 200
GET    jobs:agent              agent      302 404 200 200 200 200
POST   jobs:agent-try          agent      302 404 403 403 403 302
POST   jobs:agent-switch       agent      302 404 403 403 403 302
GET    jobs:ask                ask        302 404 200 200 200 200
GET    jobs:ask-raw            ask        302 404 200 200 200 200
GET    jobs:job                job        302 404 200 200 200 200
GET    jobs:tail               job        302 404 200 200 200 200
GET    jobs:log                job        302 404 200 200 200 200
POST   jobs:cancel             job        302 404 403 302 403 302

GET    notices:mine            -          302 200 200 200 200 200
POST   notices:mine            -          302 302 302 302 302 302
GET    notices:channels        -          302 200 200 200 200 200
GET    notices:new-channel     lab        302 404 403 403 403 200
POST   notices:new-channel     lab        302 404 403 403 403 302
GET    notices:channel         channel    302 404 403 403 403 200
POST   notices:channel         channel    302 404 403 403 403 302
POST   notices:try-channel     channel    302 404 403 403 403 302
GET    notices:deliveries      -          302 200 403 200 403 200
POST   notices:retry           given_up   302 404 403 302 403 302

GET    api:nowhere             -          401 404 404 404 404 404
POST   api:nowhere             -          401 404 404 404 404 404
GET    api:schema              -          401 200 200 200 200 200
GET    api:docs                -          302 200 200 200 200 200
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
GET    api:channel-list        -          401 200 200 200 200 200
GET    api:channel-detail      channel    401 404 200 200 200 200
POST   api:channel-list        -          401 400 403 403 403 201
POST   api:channel-change      channel    401 404 403 403 403 200
POST   api:channel-try         channel    401 404 403 403 403 201
GET    api:delivery-list       -          401 200 200 200 200 200
GET    api:delivery-detail     given_up   401 404 404 200 404 200
POST   api:delivery-retry      given_up   401 404 403 200 403 200
GET    api:my-notices          -          401 200 200 200 200 200
PUT    api:my-notices          -          401 200 200 200 200 200
GET    api:target-list         -          401 200 200 200 200 200
GET    api:target-detail       target     401 404 200 200 200 200
POST   api:target-check        target     401 404 403 200 403 200
GET    api:job-list            -          401 200 200 200 200 200
GET    api:job-detail          job        401 404 200 200 200 200
GET    api:job-log             job        401 404 200 200 200 200
POST   api:job-cancel          job        401 404 403 200 403 200
GET    api:agent-list          -          401 200 200 200 200 200
GET    api:agent-detail        agent      401 404 200 200 200 200
POST   api:agent-try           agent      401 404 403 403 403 201
POST   api:agent-switch        agent      401 404 403 403 403 200
GET    api:ask-list            -          401 200 200 200 200 200
GET    api:ask-detail          ask        401 404 200 200 200 200
GET    api:ask-raw             ask        401 404 200 200 200 200
GET    api:gate-list           -          401 200 200 200 200 200
GET    api:gate-detail         gate       401 404 200 200 200 200
GET    api:gate-waiting        -          401 200 200 200 200 200
POST   api:gate-decide         gate       401 404 403 403 200 200
POST   api:gate-suggest        gate       401 404 403 403 403 403
POST   api:gate-consequence    gate       401 404 200 200 200 200
POST   api:gate-evidence       gate       401 404 403 201 201 201
POST   api:gate-ask-agent      advised_gate 401 404 403 201 201 201
POST   api:gate-delegate       gate       401 404 403 403 200 200
POST   api:gate-reopen         ended_gate 401 404 403 403 201 201
POST   api:gate-withdraw       gate       401 404 403 200 200 200
POST   api:gate-retry-preparing unprepared_gate 401 404 403 200 200 200
POST   api:gate-retry-applying unapplied_gate 401 404 403 200 200 200
GET    api:evidence-file       evidence   401 404 200 200 200 200
GET    api:evidence-list       -          401 200 200 200 200 200
GET    api:evidence-detail     evidence   401 404 200 200 200 200
GET    api:pipeline-list       -          401 200 200 200 200 200
GET    api:pipeline-detail     pipeline   401 404 200 200 200 200
GET    api:run-list            -          401 200 200 200 200 200
GET    api:run-detail          run        401 404 200 200 200 200
POST   api:run-list            -          401 400 403 201 403 201
POST   api:run-pause           run        401 404 403 200 403 200
POST   api:run-resume          paused_run 401 404 403 200 403 200
POST   api:run-cancel          run        401 404 403 200 403 200
POST   api:run-archive         cancelled_run 401 404 403 200 403 200
POST   api:run-probe           run        401 404 403 200 403 200
POST   api:run-state-file      run        401 404 403 200 403 200
POST   api:run-upgrade         run        401 404 403 409 403 409
POST   api:run-species         run        401 404 403 201 403 201
POST   api:run-drop-species    run        401 404 403 403 409 409
POST   api:run-bring-species-back run     401 404 403 403 409 409
POST   api:run-conf            run        401 404 403 200 403 200
POST   api:phase-check         phase      401 404 403 200 403 200
POST   api:run-restore         run        401 404 403 409 403 409
POST   api:phase-stage         phase      401 404 403 409 403 409
POST   api:phase-retry         failed_phase 401 404 403 200 403 200
POST   api:phase-skip          phase      401 404 403 200 403 200
POST   api:phase-run-again     failed_phase 401 404 403 200 403 200
POST   api:tilt-series-exclude series     401 404 403 403 200 200
POST   api:tilt-series-include series     401 404 403 403 200 200
GET    api:phase-list          -          401 200 200 200 200 200
GET    api:phase-detail        phase      401 404 200 200 200 200
GET    api:tilt-series-list    -          401 200 200 200 200 200
GET    api:tilt-series-detail  series     401 404 200 200 200 200
"""

# What is sent with a POST, by the URL's name; "@thing" stands for the id of a thing of the world.
BODIES: dict[str, dict[str, Any]] = {
    "api:run-list": {
        "pipeline": "@pipeline",
        "target": "@target",
        "name": "another",
        "work_dir": "@folder/another",
        "species": ["alpha"],
    },
    "api:run-conf": {"values": {"DIM": 64}, "reason": "finer"},
    "api:phase-skip": {"reason": "the series were imported by hand"},
    "api:phase-run-again": {"reason": "with the new gain reference"},
    "runs:new": {
        "target": "@target",
        "name": "another",
        "work_dir": "@folder/another",
        "species": "alpha",
        "preset": "small",
    },
    "forgotten": {"name": "viewer"},
    "account:new-token": {"name": "notebook", "scopes": "read", "life_d": "30"},
    "labs:add": {"username": "outsider", "role": "viewer"},
    "labs:member": {"roles": "operator"},
    "labs:agent-token": {"name": "reading", "scopes": "read", "life_d": "30"},
    "labs:close-agent": {"reason": "it is not needed"},
    "labs:invite": {"role": "viewer", "life_d": "7", "note": "a guest"},
    "labs:new-agent": {"name": "second", "roles": "viewer"},
    "gates:decide": {"verdict": "approve", "shift": "4.5", "seen_digest": "d" * 64},
    "gates:ask-agents": {"agent": "@agent"},
    "api:gate-ask-agent": {"agent": "@agent"},
    "api:agent-try": {"question": "Who are you?"},
    "api:agent-switch": {"on": False, "reason": "too dear"},
    "jobs:agent-try": {"question": "Who are you?"},
    "jobs:agent-switch": {"on": "0", "reason": "too dear"},
    "gates:delegate": {"to_username": "administrator", "reason": "she knows this sample"},
    "gates:reopen": {"reason": "new fiducials"},
    "gates:withdraw": {"reason": "asked by mistake"},
    "runs:settings": {"lane": "", "reason": "larger"},
    "runs:check-settings": {"lane": "", "conf_DIM": "64", "field": "conf_DIM"},
    "runs:species": {"label": "beta", "reason": "seen in the tomograms"},
    "api:run-species": {"label": "beta", "reason": "seen in the tomograms"},
    "runs:drop": {"reason": "too few particles"},
    "runs:bring-back": {"reason": "there are more"},
    "api:run-drop-species": {"label": "alpha", "reason": "too few particles"},
    "api:run-bring-species-back": {"label": "alpha", "reason": "there are more"},
    "runs:cancel": {"reason": "wrong data set"},
    "runs:skip": {"reason": "done by hand"},
    "runs:again": {"reason": "new fiducials"},
    "runs:exclude": {"reason": "streaks"},
    "runs:include": {"reason": "the streaks are gone"},
    "api:channel-list": {"lab": "@lab.slug", "name": "another", "kind": "email", "address": "lab@example.org"},
    "api:channel-change": {"topics": ["escalations"]},
    "api:my-notices": {"kinds": [], "time_zone": "Europe/Zurich"},
    "notices:mine": {"time_zone": "UTC"},
    "notices:new-channel": {"name": "another", "kind": "email", "address": "lab@example.org", "enabled": "on"},
    "notices:channel": {"name": "first", "kind": "email", "address": "lab@example.org", "enabled": "on"},
    "api:token": {"username": "viewer", "password": "a long enough password"},
    "api:gate-decide": {"verdict": "approve", "answers": {"shift": 4.5}, "digest": "d" * 64},
    "api:gate-suggest": {"verdict": "approve", "answers": {"shift": 4.5}, "reason": "well tracked", "digest": "d" * 64},
    "api:gate-consequence": {"answers": {"shift": 4.5}},
    "api:gate-delegate": {"to": "administrator", "reason": "she knows this sample"},
    "api:gate-reopen": {"reason": "the series was measured anew"},
    "api:gate-withdraw": {"reason": "asked by mistake"},
}

# What is sent to an address that takes a file: the query, and the bytes.
FILES: dict[str, tuple[str, bytes]] = {
    "api:gate-evidence": ("?name=seen.log&kind=log&sha256=" + sha256(b"seen").hexdigest(), b"seen"),
}

# Values of the parameters of URLs that name no thing of the world.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "account:revoke-token": {"token_key": "nobodys"},
    "join": {"secret": "nobodys"},
    "new-password": {"secret": "nobodys"},
    "api:nowhere": {"address": "v1/rnus/"},
    "api:one-token": {"token_key": "nobodys"},
}
