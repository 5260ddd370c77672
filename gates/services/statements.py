"""What somebody says at a gate, read and checked: verdict, answers, reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gates.answers import clean_reason, differences
from gates.errors import InvalidAnswers, ReasonOwed
from gates.models import Ballot, Gate
from gates.policy import Policy, reason_owed
from gates.protocols import RESERVED, GateProtocol, Verdict, protocol_for
from record.canonical import canonical_text
from record.errors import BadInput
from record.models import Decision


@dataclass(frozen=True)
class Statement:
    """An answer that has been checked: its answers as JSON values, and where they depart from the suggestion."""

    verdict: str
    label: str
    answers: dict[str, Any]
    reason: str
    binding: bool

    def agrees_with(self, ballot: Ballot) -> bool:
        """Whether a ballot says the same: the verdict, and the answers where they are what counts."""
        same = ballot.verdict == self.verdict
        return same and (not self.binding or canonical_text(ballot.answers) == canonical_text(self.answers))


def read_statement(
    gate: Gate, policy: Policy, *, verdict: str, answers: Mapping[str, Any], reason: str, owed: bool = True
) -> Statement:
    """Check an answer against the protocol's verdicts and form, and whether it owes a reason (unless not `owed`)."""
    protocol = protocol_for(gate)
    verdicts = protocol.verdicts_at(gate)
    chosen = verdicts.get(verdict) if isinstance(verdict, str) else None
    if chosen is None:
        raise BadInput(
            f"{str(verdict)[:60]!r} is no verdict of this gate; say one of: {', '.join(verdicts)}.",
            code="bad_verdict",
            extra={"verdicts": list(verdicts)},
        )
    cleaned = _read_answers(gate, protocol, chosen, answers)
    why = clean_reason(reason)
    differing = differences(cleaned, _suggested(gate, protocol))
    earlier = last_decision(gate)
    replaces = f"{earlier.verdict} by {earlier.actor_name}" if earlier else ""
    debt = reason_owed(
        policy, needs_reason=chosen.needs_reason, label=chosen.label, differing=differing, replaces=replaces
    )
    if owed and debt and not why:
        raise ReasonOwed(debt, extra={"differing": differing})
    return Statement(verdict, chosen.label, cleaned, why, chosen.needs_answers)


def suggested_answers(gate: Gate) -> dict[str, Any]:
    """Those parts of the suggestion that the gate's form asks for."""
    fields = protocol_for(gate).form(gate).fields
    return {name: value for name, value in gate.suggestion.items() if name in fields}


@dataclass(frozen=True)
class Preview:
    """What answers would lead to, were they approved."""

    consequence: str
    differing: list[str]


def preview_answers(*, gate: Gate, answers: Mapping[str, Any]) -> Preview:
    """Read answers as an approval would, and say what it would do; InvalidAnswers where they don't hold."""
    protocol = protocol_for(gate)
    cleaned = _read_answers(gate, protocol, Verdict("", ""), answers)
    return Preview(protocol.consequence(gate, cleaned), differences(cleaned, _suggested(gate, protocol)))


def last_decision(gate: Gate) -> Decision | None:
    """The decision that one on this gate would supersede: of the latest iteration before it that has one, as far back
    as people wanted the question asked again."""
    while gate.reconsiders and gate.previous is not None:
        gate = gate.previous
        if gate.decision is not None:
            return gate.decision
    return None


def _read_answers(gate: Gate, protocol: GateProtocol, verdict: Verdict, answers: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(answers, Mapping):
        raise InvalidAnswers("Give the answers as field -> value.")
    form = protocol.form(gate, data=answers)
    _refuse_unknown_fields(form.fields, answers)
    if not verdict.needs_answers:
        for field in form.fields.values():
            field.required = False
    if not form.is_valid():
        errors = {name: [str(text) for text in texts] for name, texts in form.errors.items()}
        first = next(iter(errors.items()))
        label = form.fields[first[0]].label or first[0] if first[0] in form.fields else "The form"
        raise InvalidAnswers(f"{label}: {first[1][0]}", extra={"errors": errors})
    return protocol.answers(form)


def _refuse_unknown_fields(fields: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """A program's misspelt field must not pass for one left empty. Pages post more than the form's fields."""
    if hasattr(answers, "getlist"):
        return
    flat = tuple(f"{name}-" for name in fields)
    unknown = [
        name for name in map(str, answers) if name not in fields and name not in RESERVED and not name.startswith(flat)
    ]
    if unknown:
        raise InvalidAnswers(
            f"This gate asks for no {unknown[0][:60]!r}; its fields are: {', '.join(fields) or 'none'}.",
            extra={"errors": {name[:60]: ["There is no such field."] for name in unknown[:20]}},
        )


def _suggested(gate: Gate, protocol: GateProtocol) -> dict[str, Any]:
    """The suggestion as the form would clean it, so that 0.5 and "0.50" are no difference."""
    form = protocol.form(gate, data=gate.suggestion)
    for field in form.fields.values():
        field.required = False
    cleaned = protocol.answers(form) if form.is_valid() else {}
    return {name: cleaned.get(name, value) for name, value in gate.suggestion.items()}
