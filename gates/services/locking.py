"""The row that everything about a gate is decided on.

Whoever locks several rows does it in one order, so that no two wait for each other: a run, its gates by their keys, a
job, the head of the lab's chain. A gate's subject therefore comes before the gate itself; its keeper knows how to lock
it. SQLite has one lock, taken when a transaction begins, so that nothing of this is asked of it.
"""

from uuid import UUID

from django.db import connection

from gates.errors import NoSuchGate
from gates.models import Gate
from gates.subjects import lock_subject


def lock_gate(gate_id: int) -> Gate:
    """The gate, locked after its subject until the transaction ends; NoSuchGate where there is none."""
    return _lock(pk=gate_id)


def lock_gate_of(uuid: UUID) -> Gate | None:
    """As lock_gate, by the gate's uuid; None where there is none."""
    try:
        return _lock(uuid=uuid)
    except NoSuchGate:
        return None


def _lock(**key: object) -> Gate:
    if connection.features.has_select_for_update and (unlocked := Gate.objects.filter(**key).first()):
        lock_subject(unlocked)
    gate = Gate.objects.select_for_update(no_key=True).filter(**key).first()
    if gate is None:
        raise NoSuchGate("There is no such gate.")
    return gate
