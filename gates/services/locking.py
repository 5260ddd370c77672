"""The row that everything about a gate is decided on."""

from gates.errors import NoSuchGate
from gates.models import Gate


def lock_gate(gate_id: int) -> Gate:
    """The gate, locked until the transaction ends; NoSuchGate where there is none."""
    gate = Gate.objects.select_for_update().filter(pk=gate_id).first()
    if gate is None:
        raise NoSuchGate("There is no such gate.")
    return gate
