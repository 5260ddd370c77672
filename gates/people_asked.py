"""People as agents: a question becomes a gate of its own, with a form made of the answer's schema.

configuration: who (a role, or user names; default reviewer), due_s (seconds until it counts as not answered)
"""

import json
from typing import Any

from django.urls import reverse

from gates.models import Gate
from gates.policy import faults as policy_faults
from gates.protocols import APPROVE, REJECT, Preparation
from gates.services.asking import request_gate, withdraw_gate
from gates.states import GateState
from jobs.agents.models import Agent, Ask
from jobs.agents.parse import read_answer
from jobs.agents.services import Answered, lock_agent, settle_ask
from jobs.agents.states import AskState
from record.errors import BadInput
from record.models import Decision
from record.services import Author

KEY = "answer"
INTRO_CHARACTERS = 1900
PREFIX = "answer_"  # a gate's form has a verdict and a reason of its own
_ALLOWED = frozenset({"who", "due_s"})


class AsPerson:
    """See jobs.agents.backends.Backend."""

    label = "a person"

    def faults(self, configuration: Any) -> list[str]:
        """As a gate's policy says what is wrong with it."""
        if not isinstance(configuration, dict):
            return ["configuration: give names and values"]
        unknown = [f"there is no {name!r}; it knows who and due_s" for name in configuration if name not in _ALLOWED]
        return unknown or policy_faults(configuration)

    def begin(self, ask: Ask, agent: Agent) -> None:
        """Put it as a gate; in the caller's transaction."""
        gate = request_gate(
            lab_id=ask.lab_id,
            subject=ask.subject(),
            key=KEY,
            protocol="generic",
            title=f"Question to {agent.name}" + (f": {ask.item}" if ask.item else ""),
            context=ask.subject_label,
            options={
                "intro": _intro(ask),
                "consequence": "Your answer is shown as advice beside the form of whoever decides.",
                "verdicts": {APPROVE: "Answer", REJECT: "I can't say"},
                "fields": fields_of(ask.result_schema),
            },
            policy=agent.configuration | {"reason": "never"},
            requested_by=ask.asked_by,
        )
        if gate.state == GateState.PREPARE_FAILED:
            raise BadInput(f"The question can't be put to a person: {gate.error}")

    def stop(self, ask: Ask, author: Author, reason: str) -> None:
        """Take the gate back; no decision of anybody's, but what follows from another."""
        gate = Gate.objects.in_progress().filter(subject_uuid=ask.uuid).first()
        if gate is not None and gate.state in (GateState.PREPARING, GateState.PREPARE_FAILED, GateState.OPEN):
            withdraw_gate(gate_id=gate.pk, author=Author.policy("end of the question"), reason=reason)


HUMAN = AsPerson()


def fields_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The form of an answer: a field for each property of its schema that a person can fill in; BadInput for others."""
    properties = {name: each for name, each in schema.get("properties", {}).items() if name != "status"}
    required = set(schema.get("required", []))
    return [_field(name, each, name in required) for name, each in properties.items()]


def _field(name: str, each: dict[str, Any], required: bool) -> dict[str, Any]:
    common = {"name": f"{PREFIX}{name}", "label": name.replace("_", " ").capitalize(), "required": required}
    common |= {"help": each["description"][:2000]} if "description" in each else {}
    if "enum" in each:
        return common | {"kind": "choice", "choices": [str(value) for value in each["enum"]]}
    if each.get("type") == "string":
        return common | {"kind": "text", "lines": 4, "max_length": min(each.get("maxLength", 2000), 10_000)}
    if each.get("type") in ("number", "integer"):
        bounds = {ours: each[theirs] for ours, theirs in (("min", "minimum"), ("max", "maximum")) if theirs in each}
        return common | {"kind": "number", "whole": each["type"] == "integer", **bounds}
    raise BadInput(f"People can't be asked for {name}: a form has texts, numbers and choices.")


def _intro(ask: Ask) -> str:
    head = f"{ask.asked_by_name} asks. What programs and models would be told:\n\n"
    body = ask.prompt.partition("\n\nAnswer with ")[0]
    cut = "" if len(body) <= INTRO_CHARACTERS - len(head) else " …"
    return head + body[: INTRO_CHARACTERS - len(head)] + cut


class AskKeeper:
    """Looks after the gates of questions (see gates.subjects.Keeper)."""

    def applied(self, gate: Gate, decision: Decision) -> None:
        """Take the answer."""
        ask = _ask_of(gate)
        if ask is not None:
            settle_ask(ask, _answered(ask, decision))

    def closed(self, gate: Gate) -> None:
        """Nobody answered."""
        ask = _ask_of(gate)
        if ask is not None:
            late = gate.state == GateState.TIMED_OUT
            outcome = AskState.TIMED_OUT if late else AskState.WITHDRAWN
            settle_ask(ask, Answered(outcome, "Nobody answered in time." if late else "Its gate was withdrawn."))

    def url(self, gate: Gate) -> str:
        return reverse("jobs:ask", args=[gate.subject_uuid])

    def describe(self, gate: Gate) -> str:
        return gate.context

    def lock(self, gate: Gate) -> None:
        ask = _ask_of(gate)
        if ask is not None:
            lock_agent(ask.agent_id)

    def preparation(self, gate: Gate, commands: list[list[str]]) -> Preparation:
        raise BadInput("Questions to people have no evidence of their own.")


KEEPER = AskKeeper()


def _ask_of(gate: Gate) -> Ask | None:
    return Ask.objects.filter(uuid=gate.subject_uuid).first()


def _answered(ask: Ask, decision: Decision) -> Answered:
    """A person's answer, held against the same schema as everybody's."""
    said = decision.statement
    facts = {"isolation": "person"}
    if decision.verdict != APPROVE:
        why = f"{decision.actor_name} can't say. {said.reason}".strip()
        return Answered(AskState.BLOCKED, why, None, facts)
    given = {name.removeprefix(PREFIX): value for name, value in said.answers.items() if value not in ("", None)}
    reading = read_answer(json.dumps({"status": "ok", **given}), ask.result_schema)
    return Answered(reading.outcome, reading.message or f"Answered by {decision.actor_name}.", reading.result, facts)
