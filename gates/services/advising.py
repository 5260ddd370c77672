"""Asking agents at a gate, and taking the questions back once nobody needs an answer."""

from django.db import transaction

from gates.errors import GateClosed
from gates.models import Gate
from gates.protocols import protocol_for
from gates.services.locking import lock_gate
from gates.states import GateState
from jobs.agents.models import Agent, Ask
from jobs.agents.services import ask_agent, require_may_ask, withdraw_asks
from record.errors import BadInput
from record.services import Author, record_event

MOST_ITEMS = 200


def ask_at_gate(*, gate_id: int, agent_id: int, author: Author) -> list[Ask]:
    """Ask an agent about each item of an open gate; the new asks, of which as many run at once as the agent takes.

    Items about which it has answered, or is being asked, are left out. Raises GateClosed unless the gate is open,
    BadInput where its protocol asks agents nothing or the agent is another lab's, and what `ask_agent` raises.
    """
    with transaction.atomic():
        gate = lock_gate(gate_id)
        require_may_ask(author, gate.lab_id)
        if gate.state != GateState.OPEN:
            raise GateClosed(f"{gate.title} ({gate.context}) is {gate.state_text}: agents are asked while it is open.")
        if not Agent.objects.filter(pk=agent_id, lab_id=gate.lab_id).exists():
            raise BadInput("There is no such agent in this gate's lab.", code="no_such_agent")
        questions = protocol_for(gate).questions(gate)
        if not questions:
            raise BadInput(f"{gate.title} ({gate.context}) is a gate at which agents are asked nothing.")
        if len(questions) > MOST_ITEMS:
            raise BadInput(
                f"{len(questions)} items are more than the {MOST_ITEMS} about which agents are asked at once."
            )
        asks = ask_agent(agent_id=agent_id, author=author, subject=gate.subject(), questions=questions)
        record_event(
            lab_id=gate.lab_id,
            kind="gate.ask_agent",
            subject=gate.subject(),
            message=f"{gate.title}, {gate.context}: {author.name} asked {asks[0].agent_name} about {len(asks)} items",
            data={"agent": asks[0].agent_name, "items": [ask.item for ask in asks]},
        )
    return asks


def stop_asking(gate: Gate, author: Author, reason: str) -> None:
    """Take back what agents are still asked at a gate; in the caller's transaction, with the gate locked."""
    withdraw_asks(subject_uuid=gate.uuid, author=author, reason=reason)
