"""What `conduct` asks of runs, once a tick: each returns how many things it did. One bad row never stops the rest."""

from functools import partial

from jobs.drain import draining
from jobs.hosts import this_host
from jobs.models import Job
from jobs.patience import Patience
from record.prepared import Prepared
from runs.models import Phase
from runs.progress import look_at_progress, to_look_at
from runs.services.by_outputs import settle_end, unsettled_phases
from runs.services.ending import settle_stopped
from runs.services.export import due_at_clusters, due_exports, export_state
from runs.services.launch import start_phase
from runs.services.made_ready import take_ready
from runs.states import RunState

_patience = Patience(longest_s=60)
_STARTABLE = Prepared(lambda host: Phase.objects.startable(host).here().values_list("pk", flat=True))


def start_made_ready() -> int:
    """Start the phases that this process itself has just made ready."""
    ready = take_ready()
    return sum(_patience.attempt(_key(pk), partial(start_phase, pk, ready[pk])) for pk in _may_start(list(ready)))


def start_ready() -> int:
    """Start the phases that are ready."""
    return _patience.each(_may_start(_STARTABLE.all(this_host())), start_phase)


def settle_cancelled() -> int:
    """Stop what a cancelled run left between two steps."""
    return _patience.each(_half_stopped(), settle_stopped)


def refresh_progress() -> int:
    """Read from disk how far the running phases are; each every few seconds."""
    return _patience.each(to_look_at(Phase.objects.in_work().here()), look_at_progress)


def export_states() -> int:
    """Write the state files of runs on this machine that are behind."""
    return _patience.each(due_exports(), export_state)


class AtCluster:
    """The same at a cluster, in its turn: see jobs.alongside."""

    def due(self) -> set[int]:
        """Clusters at which a phase is ready; progress is looked at whenever the cluster is asked after its jobs."""
        ready = Phase.objects.startable().filter(run__target__kind="slurm").values_list("pk", "run__target")
        targets = {target_id for pk, target_id in ready if _patience.allows(_key(pk))}
        return (set() if targets and draining() else targets) | _exports_due()

    def act(self, target_id: int) -> int:
        ready = Phase.objects.startable().filter(run__target=target_id).values_list("pk", flat=True)
        started = _patience.each(_may_start(list(ready)), start_phase)
        seen = _patience.each(to_look_at(Phase.objects.in_work().filter(run__target=target_id)), look_at_progress)
        seen += _patience.each(unsettled_phases(target_id), settle_end)
        return started + seen + _patience.each(due_exports(target_id), export_state)


AT_CLUSTER = AtCluster()


def _may_start(ready: list[int]) -> list[int]:
    """Those of the phases that are ready; none while the installation is being drained."""
    return [] if ready and draining() else ready


def _exports_due() -> set[int]:
    """Clusters at which a state file is behind, and may be tried."""
    behind = due_at_clusters()
    return {each for each in behind if any(_patience.allows(f"export_state {pk}") for pk in due_exports(each))}


def _key(pk: int) -> str:
    return f"{start_phase.__name__} {pk}"


def _half_stopped() -> list[int]:
    phases = Phase.objects.at_work().filter(run__state=RunState.CANCELLED)
    rows = list(phases.values_list("run_id", "uuid"))
    if not rows:
        return []
    busy = set(
        Job.objects.live().filter(subject_uuid__in=[uuid for _, uuid in rows]).values_list("subject_uuid", flat=True)
    )
    unhandled = Job.objects.unhandled().filter(subject_uuid__in=[uuid for _, uuid in rows])
    busy |= set(unhandled.values_list("subject_uuid", flat=True))
    return sorted({run_id for run_id, uuid in rows if uuid not in busy})
