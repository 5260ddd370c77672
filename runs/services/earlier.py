"""Jobs that a lab's own tools handed over before a run was taken up: waited for, never handed over again."""

import re
from datetime import timedelta

from django.utils import timezone

from jobs.executors.slurm.client import Slurm
from jobs.executors.slurm.states import Standing
from jobs.models import TargetKind
from jobs.parse import script_resources
from jobs.shells import cluster_of, shell_for
from record.errors import AdapterError
from runs.models import Phase
from runs.pipeline.spec import spec_of
from runs.services.steps import script_text

NATIVE_ID = re.compile(r"[0-9]+(;[A-Za-z0-9_.-]+)?\Z")
SEEN_SINCE = timedelta(days=1)


def refuse_while_queued(phase: Phase) -> None:
    """AdapterError, transient, while the cluster still has one of the phase's earlier jobs queued or running.

    An id comes round again, so a job counts only under a name that the phase's scripts give. A cluster that can't be
    asked is no answer: the phase then waits, too.
    """
    ids = [each for each in map(str, phase.awaited_ids) if NATIVE_ID.match(each)]
    target = phase.run.target
    if not ids or target.kind != TargetKind.SLURM:
        return
    slurm = Slurm(shell_for(target), cluster_of(target).site())
    answer = slurm.poll(ids, since=timezone.now() - SEEN_SINCE)
    names = _names(phase)
    there = [
        native_id
        for native_id, status in answer.statuses.items()
        if status.meaning.standing != Standing.ENDED and status.name in names
    ]
    if there:
        raise AdapterError(
            f"Job {', '.join(there)}, handed over before the run was taken up, is still at {target.name}: it is waited "
            "for.",
            transient=True,
        )


def _names(phase: Phase) -> set[str]:
    """The names that sbatch gives to jobs of the phase's scripts: their own, or that of the file."""
    spec = spec_of(phase.run.snapshot).by_key[phase.key]
    names: set[str] = set()
    for script in spec.scripts:
        given = script_resources(script_text(phase.run, spec, script)).job_name
        names.add(given or script.rsplit("/", 1)[-1])
    return names
