"""A lab's cryo-ET folder on a cluster, from phase 1 to M: `python -m conductor_site.tests.cluster_opus_et` with wishes.

A process of its own, since it needs the site's own settings and a `conduct`. Prints one line of JSON.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import django

LIMIT_S = 900


def main(wishes: dict[str, Any]) -> dict[str, Any]:
    django.setup()
    from django.conf import settings

    from conductor_site.demo.setup import prepare_demo, prepare_site
    from conductor_site.demo.supervisor import Child
    from jobs.models import Cluster, Job, Target
    from record.models import Door
    from record.services import Author
    from record.verify import verify_chain
    from runs.models import Pipeline
    from runs.services.create import create_run
    from runs.tests.opus_et.folder import SPECIES
    from runs.tests.opus_et.seeing import check_outcome

    prepare_site()
    demo = prepare_demo()
    Target.objects.filter(pk=demo.target.pk).update(kind="slurm", **wishes["target"])
    Cluster.objects.create(target_id=demo.target.pk, **wishes["cluster"])
    demo.target.refresh_from_db()
    author = Author.person(demo.reviewer, Door.CLI)
    run = create_run(
        lab_id=demo.lab.pk,
        author=author,
        pipeline=Pipeline.objects.create(lab=demo.lab, name="OPUS-ET", folder=wishes["folder"]),
        target=demo.target,
        name="tomo",
        work_dir=str(Path(demo.target.roots[0]) / "tomo"),
        conf={},
        species=list(SPECIES),
    )
    child = Child("conduct", [sys.executable, "manage.py", "conduct"], settings.DATA_DIR / "logs/conduct.log")
    child.start()
    try:
        see_through(run, author)
    finally:
        child.stop()
    check_outcome(Path(run.work_dir), SPECIES)
    jobs = Job.objects.filter(root_uuid=run.uuid, purpose="phase")
    return {
        "states": sorted(set(run.phases.exclude(optional=True).values_list("state", flat=True))),
        "jobs": jobs.count(),
        "succeeded": jobs.filter(state="succeeded").count(),
        "native_ids": len(set(jobs.values_list("native_id", flat=True))),
        "names": sorted({job.script_name for job in jobs}),
        "chain_faults": [str(fault) for fault in verify_chain(demo.lab)],
    }


def see_through(run: Any, author: Any) -> None:
    """Answer every gate as it opens, until the run is done; SystemExit where a phase fails or time runs out."""
    from gates.models import Gate
    from gates.services import answer_gate
    from runs.tests.opus_et.seeing import answers_to

    deadline = time.monotonic() + LIMIT_S
    while run.state != "done":
        if failed := [f"{phase.label}: {phase.reason}" for phase in run.phases.filter(state="failed")]:
            sys.exit("; ".join(failed))
        if time.monotonic() > deadline:
            left = run.phases.exclude(state__in=["done", "skipped"])
            sys.exit(f"not done in {LIMIT_S} s: {', '.join(f'{each.label} {each.state}' for each in left)}")
        for gate in Gate.objects.filter(state="open"):
            answers, reason = answers_to(gate)
            answer_gate(
                gate_id=gate.pk,
                author=author,
                verdict="approve",
                answers=answers,
                reason=reason,
                seen_digest=gate.digest,
            )
        time.sleep(0.2)
        run.refresh_from_db()


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1])), default=str))
