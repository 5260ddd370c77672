"""What is due at gates: called each second by `conduct`, each minute by the schedule. Each says how much was done."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef

from gates.models import Gate
from gates.services.applying import apply_gate
from gates.services.clocks import escalate_gate, note_beat, time_out_gate
from gates.services.preparing import PURPOSE, prepare_gate
from gates.states import GateState
from jobs.models import Job
from jobs.patience import Patience

_patience = Patience(longest_s=300)


def apply_decided() -> int:
    """Write back what has been decided."""
    return _patience.each(_keys(Gate.objects.to_apply()), apply_gate)


def close_overdue() -> int:
    """Close gates whose time is up, after time in which nobody looked at the clocks has been given back."""
    note_beat()
    return _patience.each(_keys(Gate.objects.overdue()), time_out_gate)


def escalate_due() -> int:
    """Ask others where a gate has waited too long."""
    return _patience.each(_keys(Gate.objects.to_escalate()), escalate_gate)


def prepare_due() -> int:
    """Begin preparing where no job does."""
    unheard = Job.objects.filter(subject_uuid=OuterRef("uuid"), purpose=PURPOSE, final_handled=False)
    idle = Gate.objects.in_progress().filter(state=GateState.PREPARING).exclude(Exists(unheard)).order_by("id")
    return _patience.each(_keys(idle), prepare_gate)


def _keys(gates: Any) -> Iterable[int]:
    return gates.values_list("pk", flat=True)
