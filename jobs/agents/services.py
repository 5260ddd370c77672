"""What may be asked of agents: ask, go on with those that wait, take an answer, take a question back, switch off."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from jobs.agents.backends import backend_for
from jobs.agents.configuration import takes_pictures
from jobs.agents.errors import AgentOff, AskedAlready
from jobs.agents.models import Agent, Ask
from jobs.agents.prompts import Template, render, schema_of
from jobs.agents.states import ASK, OUTCOMES, AskState
from record.access import Ability, can, require
from record.canonical import canonical_text, sha256_hex
from record.errors import BadInput, ConductorError, NotAllowed
from record.models import ActorKind
from record.redaction import redact
from record.services import Author, Subject, record_event

MOST_QUESTIONS = 500  # at once, about one subject


@dataclass(frozen=True)
class Question:
    """One thing to ask: about which item, by which template, with which data.

    `pictures` are files that go along where the agent takes any: name, path, sha256, media_type, caption.
    """

    template: Template
    data: Mapping[str, str]
    item: str = ""
    pictures: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Answered:
    """How an ask ended: an outcome of the table, why, the result where it is ok, and what is known besides."""

    outcome: str
    message: str = ""
    result: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def ask_agent(*, agent_id: int, author: Author, subject: Subject, questions: Iterable[Question]) -> list[Ask]:
    """Ask an agent these questions about `subject`; as many at once as it takes, the others wait. The new asks.

    What it has answered about an item of this subject, or is being asked, is left out. Raises NotAllowed, AgentOff,
    AskedAlready where nothing is left to ask, BadInput for an agent that can't be used.
    """
    with transaction.atomic():
        agent = _locked(agent_id)
        require_may_ask(author, agent.lab_id)
        if agent.off_since is not None:
            raise AgentOff(f"{agent.name} is switched off. An administrator can switch it on again.")
        _refuse_faults(agent)
        taken = set(
            Ask.objects.filter(agent=agent, subject_uuid=subject.uuid, state__in=["waiting", "asked", "ok"])
            .exclude(item="")
            .values_list("item", flat=True)
        )
        wanted = [question for question in questions if not question.item or question.item not in taken]
        if not wanted:
            raise AskedAlready(f"{agent.name} has answered, or is being asked, about all of it.")
        if len(wanted) > MOST_QUESTIONS:
            raise BadInput(f"{len(wanted)} questions are more than the {MOST_QUESTIONS} that can be asked at once.")
        made = [_create(agent, author, subject, question) for question in wanted]
        begin_waiting(agent)
    return list(Ask.objects.filter(pk__in=[ask.pk for ask in made]).order_by("id"))


def begin_waiting(agent: Agent) -> int:
    """Put what waits to a locked agent, as far as it takes more at once; how many were put. In a transaction."""
    begun = 0
    while agent.off_since is None:
        live = Ask.objects.filter(agent=agent, ended_at=None)
        if live.filter(state=AskState.ASKED).count() >= agent.at_once:
            break
        ask = live.filter(state=AskState.WAITING).order_by("id").first()
        if ask is None:
            break
        begun += _begin(ask, agent)
    return begun


def settle_ask(ask: Ask, answered: Answered) -> None:
    """Write down for good how an ask ended, and go on with what waits; in a transaction, with its agent locked.

    One that has ended stays as it is.
    """
    if _settle(ask, answered):
        begin_waiting(_locked(ask.agent_id))


def withdraw_asks(*, subject_uuid: UUID, author: Author, reason: str) -> int:
    """Take back what is still asked about a subject that is settled; how many. In the caller's transaction."""
    asks = list(Ask.objects.filter(subject_uuid=subject_uuid, ended_at=None).select_related("job").order_by("id"))
    agents = [_locked(agent_id) for agent_id in sorted({ask.agent_id for ask in asks})]
    for ask in asks:
        if ask.state == AskState.ASKED:
            backend_for(ask.backend).stop(ask, author, reason)
        _settle(ask, Answered(AskState.WITHDRAWN, f"Withdrawn: {reason}."))
    for agent in agents:
        begin_waiting(agent)
    return len(asks)


def switch_agent(*, agent_id: int, author: Author, on: bool, reason: str = "") -> Agent:
    """Switch an agent off, so that nothing more is put to it (what waits is withdrawn), or on again."""
    with transaction.atomic():
        agent = _locked(agent_id)
        if author.user is not None:
            require(author.user, Ability.OVERRIDE, agent.lab_id)
        if on == (agent.off_since is None):
            return agent
        agent.off_since = None if on else timezone.now()
        agent.save(update_fields=["off_since"])
        word = "on" if on else "off"
        record_event(
            lab_id=agent.lab_id, kind="agent.switch", subject=agent.subject(), data={"on": on, "reason": reason},
            message=f"Agent {agent.name} was switched {word} by {author.name}" + (f": {reason}" if reason else ""),
        )  # fmt: skip
        if not on:
            for ask in Ask.objects.filter(agent=agent, state=AskState.WAITING).order_by("id"):
                _settle(ask, Answered(AskState.WITHDRAWN, f"{agent.name} was switched off."))
    return agent


def may_ask(user: Any, lab_id: int) -> bool:
    """Whether this person may ask agents in the lab."""
    return can(user, Ability.OPERATE, lab_id) or can(user, Ability.DECIDE, lab_id)


def require_may_ask(author: Author, lab_id: int) -> None:
    """NotAllowed unless the author may ask agents in the lab. The policy itself may do everything."""
    if author.kind == ActorKind.POLICY:
        return
    if author.user is None or not may_ask(author.user, lab_id):
        raise NotAllowed("To ask agents you need the role operator, reviewer or administrator in this lab.")


def lock_agent(agent_id: int) -> None:
    """Lock the agent before its asks are settled; where a database locks rows."""
    if connection.features.has_select_for_update:
        _locked(agent_id)


def _begin(ask: Ask, agent: Agent) -> int:
    """Put one question; 0 where it can't be, which is then how it ended."""
    try:
        with transaction.atomic():
            ASK.apply(ask, "begin", lab_id=ask.lab_id, subject=ask.subject(), begun_at=timezone.now())
            backend_for(agent.backend).begin(ask, agent)
            ask.save(update_fields=["job"])
    except ConductorError as error:
        _settle(ask, Answered(AskState.INFRA, error.message))
        return 0
    return 1


def _settle(ask: Ask, answered: Answered) -> bool:
    """Write how it ended; False where that stands already."""
    ask.refresh_from_db()
    if ask.is_ended:
        return False
    outcome = OUTCOMES[answered.outcome]
    why = redact(answered.message or ("" if answered.outcome == AskState.OK else outcome.meaning))[:1000]
    result = answered.result if answered.outcome == AskState.OK else None
    changes: dict[str, Any] = {**answered.facts, "why": why, "result": result}
    said = copy.copy(ask)
    for name, value in (changes | {"state": answered.outcome}).items():
        setattr(said, name, value)
    ASK.apply(
        ask,
        outcome.event,
        lab_id=ask.lab_id,
        subject=ask.subject(),
        message=f"{ask.subject().label}: {said.get_state_display()}. {why}".strip(),
        digest=sha256_hex(canonical_text(said.facts())),
        ended_at=timezone.now(),
        **changes,
    )
    return True


def _create(agent: Agent, author: Author, subject: Subject, question: Question) -> Ask:
    template = question.template
    pictures = question.pictures if takes_pictures(agent.backend, agent.configuration) else []
    data = {name: redact(text) for name, text in question.data.items()}  # before the prompt cuts what is long
    if pictures:
        data["Pictures that go along, as files in your folder or beside this text"] = "\n".join(
            f"{each['name']}: {each.get('caption', '')}".rstrip(": ") for each in pictures
        )
    form = "front_matter" if agent.configuration.get("front_matter") else "json"
    return Ask.objects.create(
        lab_id=agent.lab_id,
        agent=agent,
        agent_name=agent.name,
        family=agent.family,
        backend=agent.backend,
        asked_by=author.user,
        asked_by_name=author.name[:200],
        door=author.door,
        subject_kind=subject.kind,
        subject_uuid=subject.uuid,
        subject_label=subject.label[:300],
        root_uuid=subject.root,
        item=question.item[:120],
        template=template.key,
        template_version=template.version,
        prompt=redact(render(template, data, form)),
        result_format=form,
        result_schema=schema_of(template),
        attachments=pictures,
    )


def _locked(agent_id: int) -> Agent:
    agents = Agent.objects.select_related("target").select_for_update(of=("self",), no_key=True)
    agent = agents.filter(pk=agent_id).first()
    if agent is None:
        raise BadInput("There is no such agent.", code="no_such_agent")
    return agent


def _refuse_faults(agent: Agent) -> None:
    if found := backend_for(agent.backend).faults(agent.configuration):
        raise BadInput(f"{agent.name} can't be asked as it is set up: {'; '.join(found)}.")
