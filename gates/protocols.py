"""Protocols: what a gate asks, how its evidence is made, and what its decision changes.

A protocol is one object with the attributes of `GateProtocol`; most derive from `Defaults` and write only what differs.
It is registered by import string from an `AppConfig.ready()`: `register("setup", "runs.checkpoints.setup:PROTOCOL")`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from django import forms

from gates.answers import form_answers
from gates.errors import UnknownProtocol
from gates.models import Gate
from jobs.agents.services import Question
from jobs.models import Target
from jobs.services import Resources
from record.models import Decision
from record.registry import Registry

_registry = Registry("gate protocol")
register = _registry.register
keys = _registry.keys

RESERVED = frozenset({"verdict", "reason", "digest", "seen_digest", "seen_advice", "override", "csrfmiddlewaretoken"})


@dataclass(frozen=True)
class Verdict:
    """One thing that can be said at a gate.

    With `needs_answers` the form must be filled in whole; without, what is given must hold and the rest may be missing.
    """

    label: str
    consequence: str
    needs_reason: bool = False
    needs_answers: bool = True


APPROVE, SEND_BACK, REJECT = "approve", "send_back", "reject"

VERDICTS: dict[str, Verdict] = {
    APPROVE: Verdict("Approve", "Work goes on with these answers."),
    SEND_BACK: Verdict("Send back", "The work before this gate is done again.", needs_reason=True, needs_answers=False),
    REJECT: Verdict("Reject", "Work stops here.", needs_reason=True, needs_answers=False),
}


@dataclass(frozen=True)
class Preparation:
    """How a gate's evidence is made: commands that run in order in one job, each with its own folder under `out_dir`.

    A command writes an `index.json` into the folder that is appended to it as `--out FOLDER` (unless it names one of
    its own), or one into each of several folders below it. The folders are absolute, on the target.
    """

    commands: list[list[str]]
    target: Target
    work_dir: str
    out_dir: str
    resources: Resources
    environment: dict[str, str] = field(default_factory=dict)


class GateProtocol(Protocol):
    """What a gate needs of its protocol. No form field may be named as one of RESERVED."""

    key: str
    title: str
    template: str | None
    verdicts: dict[str, Verdict]

    def verdicts_at(self, gate: Gate) -> dict[str, Verdict]:
        """What can be said at this gate, in the order of showing; mostly `verdicts`."""

    def intro(self, gate: Gate) -> str:
        """What to look at, in a sentence or two; mostly empty."""

    def plan(self, gate: Gate) -> Preparation | None:
        """How the evidence is made; None: there is nothing to make, the gate opens at once. Reads the database only."""

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        """Initial answers of the form, and optionally "items": {name: {"verdict": ..., "reason": ...}}."""

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        """The form, with the suggestion as its initial values; bound to `data` (a QueryDict or plain JSON values)."""

    def answers(self, form: forms.Form) -> dict[str, Any]:
        """The cleaned form as JSON values."""

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        """What approving these answers will do, in a sentence; empty where the verdict's own text says it all."""

    def questions(self, gate: Gate) -> list[Question]:
        """What agents are asked at this gate when somebody wants it, item by item; mostly nothing."""

    def persist(self, gate: Gate, decision: Decision) -> None:
        """Write back what was decided; called for every verdict, again after a failure: idempotent by decision.uuid."""

    def takes_additions(self, gate: Gate) -> bool:
        """Whether people and agents may add evidence to what the preparation makes."""

    def faults(self, options: dict[str, Any]) -> list[str]:
        """What is wrong with the options that a pipeline gives this protocol, in words."""


class Defaults:
    """What most protocols share: three verdicts, no evidence, no suggestion, nothing to write back."""

    key = ""
    title = ""
    template: str | None = None
    verdicts = VERDICTS

    def verdicts_at(self, gate: Gate) -> dict[str, Verdict]:
        return self.verdicts

    def intro(self, gate: Gate) -> str:
        return ""

    def plan(self, gate: Gate) -> Preparation | None:
        return None

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        return {}

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        return forms.Form(data, initial=gate.suggestion)

    def answers(self, form: forms.Form) -> dict[str, Any]:
        return form_answers(form)

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        return ""

    def questions(self, gate: Gate) -> list[Question]:
        return []

    def persist(self, gate: Gate, decision: Decision) -> None:
        return None

    def takes_additions(self, gate: Gate) -> bool:
        return False

    def faults(self, options: dict[str, Any]) -> list[str]:
        return []


def asks_agents(protocol: GateProtocol) -> bool:
    """Whether agents can be asked at its gates; without making the questions."""
    return getattr(type(protocol), "questions", None) not in (None, Defaults.questions)


def find_protocol(gate: Gate) -> GateProtocol | None:
    """The gate's protocol, or None where it is not installed here: the gate can then be read only."""
    return _registry.find(gate.protocol)


def protocol_for(gate: Gate) -> GateProtocol:
    """The gate's protocol; UnknownProtocol where it is not installed here."""
    found = find_protocol(gate)
    if found is None:
        raise UnknownProtocol(unknown_text(gate), extra={"protocol": gate.protocol})
    return found


def unknown_text(gate: Gate) -> str:
    return (
        f"The protocol {gate.protocol!r} of this gate is not installed here. It can be read but not answered; "
        f"installed are: {', '.join(keys()) or 'none'}."
    )
