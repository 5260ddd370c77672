"""What `conduct` asks of runs, once a tick: each returns how many things it did. One bad row never stops the rest."""

import logging
from collections.abc import Callable, Iterable

from django.db import Error as DatabaseError

from jobs.models import Job
from jobs.patience import Patience
from runs.models import Phase
from runs.progress import look_at_progress, to_look_at
from runs.services.ending import settle_stopped
from runs.services.launch import start_phase
from runs.states import PhaseState, RunState

log = logging.getLogger(__name__)
_patience = Patience(longest_s=60)


def start_ready() -> int:
    """Start the phases that are ready, and stop what a cancelled run left between two steps."""
    started = _each("phase", Phase.objects.startable().values_list("pk", flat=True), start_phase)
    return started + _each("run", _half_stopped(), settle_stopped)


def refresh_progress() -> int:
    """Read from disk how far the running phases are; each every few seconds."""
    return _each("phase", to_look_at(), look_at_progress)


def _half_stopped() -> list[int]:
    phases = Phase.objects.filter(state=PhaseState.RUNNING, run__state=RunState.CANCELLED)
    rows = phases.values_list("run_id", "uuid")
    busy = set(
        Job.objects.live().filter(subject_uuid__in=[uuid for _, uuid in rows]).values_list("subject_uuid", flat=True)
    )
    unhandled = Job.objects.unhandled().filter(subject_uuid__in=[uuid for _, uuid in rows])
    busy |= set(unhandled.values_list("subject_uuid", flat=True))
    return sorted({run_id for run_id, uuid in rows if uuid not in busy})


def _each(what: str, keys: Iterable[int], act: Callable[[int], object]) -> int:
    done = 0
    for key in list(keys):
        row = (what, act.__name__, key)
        if not _patience.allows(row):
            continue
        try:
            done += bool(act(key))
        except DatabaseError:
            raise  # it is not this row's fault
        except Exception:  # one bad row must not stop the rest
            log.exception("%s %s: %s failed; it is tried again", what, key, act.__name__)
            _patience.failed(row)
        else:
            _patience.succeeded(row)
    return done
