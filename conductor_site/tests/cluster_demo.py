"""The tiny demo run on a cluster, unattended: `python -m conductor_site.tests.cluster_demo` with a JSON of its wishes.

A process of its own, since it needs the site's own settings, a web server and `conduct`. Prints one line of JSON.
"""

import json
import sys
from typing import Any

import django


def main(wishes: dict[str, Any]) -> dict[str, Any]:
    django.setup()
    from django.conf import settings

    from conductor_site.demo.check import GateKeeper
    from conductor_site.demo.client import Client
    from conductor_site.demo.setup import prepare_demo, prepare_site, start_demo_run
    from conductor_site.demo.supervisor import Site, open_door
    from gates.models import Evidence
    from jobs.models import Cluster, Job, Target
    from record.verify import verify_chain
    from runs.models import Phase

    prepare_site()
    demo = prepare_demo()
    Target.objects.filter(pk=demo.target.pk).update(kind="slurm", **wishes["target"])
    Cluster.objects.create(target_id=demo.target.pk, **wishes["cluster"])
    demo.target.refresh_from_db()
    site = Site(open_door(8300), settings.DATA_DIR)
    site.start()
    try:
        keeper = GateKeeper(Client(site.address), site, lambda words: print(words, file=sys.stderr, flush=True))
        keeper.sign_in(demo.reviewer.username, demo.password)
        run = start_demo_run(demo, name="demo-tiny", preset="tiny")
        keeper.see_through(run.pk)
    finally:
        site.stop()
    jobs = Job.objects.all()
    return {
        "states": sorted(set(Phase.objects.values_list("state", flat=True))),
        "jobs": jobs.count(),
        "succeeded": jobs.filter(state="succeeded").count(),
        "native_ids": len(set(jobs.values_list("native_id", flat=True))),
        "gates": keeper.decided,
        "pictures": keeper.pictures,
        "evidence": sorted(set(Evidence.objects.values_list("sha256", flat=True))),
        "work_dir": run.work_dir,
        "chain_faults": [str(fault) for fault in verify_chain(demo.lab)],
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1])), default=str))
