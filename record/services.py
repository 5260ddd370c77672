"""The only writers of the record."""

import secrets
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from record import heads
from record.access import Ability, kind_of, require
from record.canonical import canonical_text, link_digest, statement_digest
from record.copies import clear_copies
from record.errors import BadInput, InvalidTransition, StaleState
from record.kinds import KINDS
from record.models import ActorKind, ChainHead, Decision, Door, Event, Lab, Statement
from record.notices.outbox import owe_deliveries
from record.prepared import insert
from record.values import JSON_LIMIT_BYTES, kept_json, kept_reason, visible_json, visible_text

AGENT_MARK = "(agent)"  # ends the name of every agent, wherever names are shown
STRIKE = "strike"  # the verdict of a tombstone
VERDICT_LENGTH = 60
JSON_FIELDS = {
    "answers": "The answers",
    "evidence": "The evidence",
    "config_before": "The configuration before",
    "config_after": "The configuration after",
}


@dataclass(frozen=True)
class Author:
    """Who speaks, and by which door. A policy has no user."""

    kind: str
    name: str
    door: str
    user: User | None = None

    def __post_init__(self) -> None:
        if (self.user is None) == (self.kind in (ActorKind.PERSON, ActorKind.AGENT)):
            raise ValueError(f"an author of the kind {self.kind} {'needs a' if self.user is None else 'has no'} user")
        if self.user is not None and self.kind != kind_of(self.user):
            raise ValueError(f"{self.user} is {kind_of(self.user)}, and acts as nothing else")

    @classmethod
    def person(cls, user: User, door: str) -> "Author":
        """Whoever has this account: a person, or the agent that it is marked as, which is then told by its name too."""
        name = user.get_full_name() or user.get_username()
        kind = kind_of(user)
        if kind == ActorKind.AGENT and not name.endswith(AGENT_MARK):
            name = f"{name} {AGENT_MARK}"
        return cls(kind, name, door, user)

    @classmethod
    def command_line(cls) -> "Author":
        """Whoever has a shell where Conductor runs; who that is, the machine knows and we don't."""
        return cls(ActorKind.POLICY, "command line", Door.CLI)

    @classmethod
    def policy(cls, name: str) -> "Author":
        return cls(ActorKind.POLICY, name, Door.POLICY)


@dataclass(frozen=True)
class Subject:
    """What a decision or an event speaks of. `root` is the uuid of the run that it is part of."""

    kind: str
    uuid: UUID
    label: str
    root: UUID | None = None


@dataclass(frozen=True)
class Ruling:
    """What was decided. `evidence` is {"digest": ..., "items": {name: sha256}}."""

    verdict: str
    reason: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    config_before: dict[str, Any] = field(default_factory=dict)
    config_after: dict[str, Any] = field(default_factory=dict)
    gate_uuid: UUID | None = None
    iteration: int | None = None
    supersedes: Decision | None = None
    override: bool = False


def record_decision(*, lab_id: int, subject: Subject, author: Author, ruling: Ruling) -> Decision:
    """Append one decision to the lab's chain.

    Call it inside the transaction of what it decides, after every other lock: the chain's head is locked last.
    Raises BadInput, in words, for what the record can't keep as it was given (see record.values) and for an override or
    a correction without a reason; StaleState where the chain moved on although its head was locked.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("record_decision belongs in the transaction of what it decides")
    ruling = _kept_ruling(ruling, lab_id)
    head = _lock_head(lab_id)
    salt = secrets.token_hex(16)
    decision = _decision(head, subject, author, ruling)
    decision.canonical = canonical_text(payload(decision, statement_digest(salt, ruling.reason, ruling.answers)))
    decision.digest = link_digest(head.digest, decision.canonical)
    decision.save()
    Statement.objects.create(decision=decision, salt=salt, reason=ruling.reason, answers=ruling.answers)
    _move_head(head, decision)
    transaction.on_commit(lambda: heads.append(lab_id, decision.number, decision.digest), robust=True)
    return decision


def record_event(
    *,
    lab_id: int,
    kind: str,
    subject: Subject,
    message: str = "",
    data: dict[str, Any] | None = None,
    decision: Decision | None = None,
) -> Event:
    """Write one line of the mechanical log. `kind` must stand in record.kinds.KINDS; else KeyError.

    What can't be kept of `message` (its first 1,000 characters) and `data` is shown by its text, never refused. Of a
    notable kind people are told: what is owed to whom is written here too, and sent later (record.notices).
    """
    label, notable = KINDS[kind].label, KINDS[kind].notable
    event = Event(
        lab_id=lab_id,
        kind=kind,
        subject_kind=subject.kind,
        subject_uuid=subject.uuid,
        root_uuid=subject.root,
        message=visible_text(message or f"{subject.label}: {label}")[:1000],
        data=visible_json(data or {}),
        decision=decision,
    )
    if not notable:
        insert(event)
        return event
    with transaction.atomic(savepoint=False):
        insert(event)
        owe_deliveries(event)
    return event


def strike_statement(*, decision: Decision, author: Author, reason: str) -> Decision:
    """Remove what a person wrote with a decision (a pasted secret), by a tombstone that keeps the chain valid.

    Messages, ballots and the like that repeat it are struck too (see record.copies); backups and exports are not.

    Administrators only; NotAllowed else. The striking is itself a decision, and is returned. InvalidTransition where it
    was struck before.
    """
    if author.user is None:
        raise BadInput("Only a person can strike a statement.")
    require(author.user, Ability.OVERRIDE, decision.lab_id)
    if not reason.strip():
        raise BadInput("Say why the statement is struck (without repeating the secret).")
    with transaction.atomic():
        written = Statement.objects.filter(pk=decision.pk).first()
        tombstone = record_decision(
            lab_id=decision.lab_id,
            subject=Subject("decision", decision.uuid, f"decision {decision.number}"),
            author=author,
            ruling=Ruling(STRIKE, reason=reason, supersedes=decision, override=True),
        )
        if Statement.objects.filter(pk=decision.pk).strike(tombstone) != 1:
            raise InvalidTransition(f"What was written with decision {decision.number} was struck before.")
        clear_copies(decision, written.reason if written else "")
    return tombstone


def payload(decision: Decision, statement: str) -> dict[str, Any]:
    """What the hash of `decision` is over, from its columns. `statement` is the digest of what was written with it."""
    return {
        "uuid": str(decision.uuid),
        "lab": decision.lab.slug,
        "lab_id": decision.lab_id,
        "number": decision.number,
        "at": decision.at.astimezone(UTC).isoformat(),
        "subject_kind": decision.subject_kind,
        "subject_uuid": str(decision.subject_uuid),
        "subject_label": decision.subject_label,
        "root_uuid": str(decision.root_uuid) if decision.root_uuid else None,
        "gate_uuid": str(decision.gate_uuid) if decision.gate_uuid else None,
        "iteration": decision.iteration,
        "actor_kind": decision.actor_kind,
        "actor": decision.actor.get_username() if decision.actor else None,
        "actor_id": decision.actor_id,
        "actor_name": decision.actor_name,
        "door": decision.door,
        "verdict": decision.verdict,
        "evidence": decision.evidence,
        "config_before": decision.config_before,
        "config_after": decision.config_after,
        "supersedes": str(decision.supersedes.uuid) if decision.supersedes else None,
        "override": decision.override,
        "statement": statement,
    }


def _kept_ruling(ruling: Ruling, lab_id: int) -> Ruling:
    """The ruling as the record keeps it; BadInput where it can't."""
    if not 0 < len(ruling.verdict) <= VERDICT_LENGTH:
        raise BadInput(f"A verdict is a word of up to {VERDICT_LENGTH} characters.")
    if ruling.override and not ruling.reason.strip():
        raise BadInput("An override needs a reason: say why the state of things is overruled.")
    if ruling.supersedes and not ruling.reason.strip():
        raise BadInput("A decision that replaces an earlier one needs a reason: say what was wrong with that.")
    if ruling.supersedes and ruling.supersedes.lab_id != lab_id:
        raise BadInput("A decision can only replace one of the same lab.")
    values = {name: kept_json(getattr(ruling, name), label) for name, label in JSON_FIELDS.items()}
    for name, label in JSON_FIELDS.items():
        if (size := len(canonical_text(values[name]).encode())) > JSON_LIMIT_BYTES:
            raise BadInput(
                f"{label} is {size / 1e6:.1f} MB long; the record keeps up to {JSON_LIMIT_BYTES / 1e6:.1f} MB."
            )
    return replace(ruling, verdict=str(ruling.verdict), reason=kept_reason(ruling.reason), **values)


def _lock_head(lab_id: int) -> ChainHead:
    """The end of the lab's chain. On SQLite the lock is the transaction's own, which begins IMMEDIATE."""
    ChainHead.objects.get_or_create(lab_id=lab_id)
    heads_of_lab = ChainHead.objects.filter(lab_id=lab_id)
    if transaction.get_connection().features.has_select_for_update:
        heads_of_lab = heads_of_lab.select_for_update(no_key=True)
    return heads_of_lab.get()


def _decision(head: ChainHead, subject: Subject, author: Author, ruling: Ruling) -> Decision:
    """The next decision of the chain, without its canonical text and digest."""
    return Decision(
        lab=Lab.objects.get(pk=head.pk),
        number=head.count + 1,
        at=timezone.now(),
        subject_kind=subject.kind,
        subject_uuid=subject.uuid,
        subject_label=visible_text(subject.label)[:300],
        root_uuid=subject.root,
        gate_uuid=ruling.gate_uuid,
        iteration=ruling.iteration,
        actor_kind=str(author.kind),
        actor=author.user,
        actor_name=visible_text(author.name)[:200],
        door=str(author.door),
        verdict=ruling.verdict,
        evidence=ruling.evidence,
        config_before=ruling.config_before,
        config_after=ruling.config_after,
        supersedes=ruling.supersedes,
        override=ruling.override,
        previous_digest=head.digest,
    )


def _move_head(head: ChainHead, decision: Decision) -> None:
    unmoved = ChainHead.objects.filter(pk=head.pk, count=head.count, digest=head.digest)
    if unmoved.update(count=decision.number, digest=decision.digest) != 1:
        raise StaleState("Another decision was recorded at the same moment; repeat yours if it still fits.")
