"""From prepared to open."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from gates.answers import unprintable
from gates.digest import evidence_digest, items_of
from gates.models import Gate
from gates.policy import Policy
from gates.protocols import protocol_for
from gates.states import GATE
from record.canonical import canonical_text
from record.errors import AdapterError, ConductorError


def open_gate(gate: Gate, *, figures: dict[str, Any], notes: list[str]) -> None:
    """Open a gate whose evidence rows are written: suggestion, digest, and from now on its clocks.

    Raises ConductorError, in words, where the protocol can't make a suggestion of the figures.
    """
    now = timezone.now()
    policy = Policy.read(gate.policy)
    suggestion = suggest(gate, figures)
    GATE.apply(
        gate,
        "open",
        lab_id=gate.lab_id,
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: waits for an answer",
        figures=figures,
        notes=notes,
        suggestion=suggestion,
        digest=evidence_digest(items_of(gate), suggestion),
        error="",
        opened_at=now,
        due_at=_after(now, policy.due_s),
        escalates_at=_after(now, policy.escalate_after_s),
    )


def fail_preparing(gate: Gate, error: str) -> None:
    """Say why the gate's evidence could not be made."""
    text = error.replace("\x00", "")[-2000:]
    GATE.apply(gate, "fail_preparing", lab_id=gate.lab_id, subject=gate.subject(), message=text[:1000], error=text)


def suggest(gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
    """What the protocol suggests. Its code meets figures of any shape, so what it trips over is told, not raised on."""
    protocol = protocol_for(gate)
    try:
        suggestion = protocol.suggest(gate, figures)
        if unprintable(canonical_text(suggestion)):
            raise ValueError("the suggestion holds control characters")
    except ConductorError:
        raise
    except Exception as error:
        raise AdapterError(
            f"The protocol {gate.protocol} made no suggestion of the figures: {type(error).__name__}: {error}.",
            transient=False,
        ) from error
    return suggestion


def _after(start: Any, seconds: int | None) -> Any:
    return None if seconds is None else start + timedelta(seconds=seconds)
