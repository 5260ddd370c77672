"""What `conduct` asks of runs, once a tick: each returns how many things it did. One bad row never stops the rest."""

from jobs.models import Job
from jobs.patience import Patience
from runs.models import Phase
from runs.progress import look_at_progress, to_look_at
from runs.services.ending import settle_stopped
from runs.services.launch import start_phase
from runs.states import PhaseState, RunState

_patience = Patience(longest_s=60)


def start_ready() -> int:
    """Start the phases that are ready, and stop what a cancelled run left between two steps."""
    started = _patience.each(Phase.objects.startable().values_list("pk", flat=True), start_phase)
    return started + _patience.each(_half_stopped(), settle_stopped)


def refresh_progress() -> int:
    """Read from disk how far the running phases are; each every few seconds."""
    return _patience.each(to_look_at(), look_at_progress)


def _half_stopped() -> list[int]:
    phases = Phase.objects.filter(state=PhaseState.RUNNING, run__state=RunState.CANCELLED)
    rows = phases.values_list("run_id", "uuid")
    busy = set(
        Job.objects.live().filter(subject_uuid__in=[uuid for _, uuid in rows]).values_list("subject_uuid", flat=True)
    )
    unhandled = Job.objects.unhandled().filter(subject_uuid__in=[uuid for _, uuid in rows])
    busy |= set(unhandled.values_list("subject_uuid", flat=True))
    return sorted({run_id for run_id, uuid in rows if uuid not in busy})
