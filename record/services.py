"""The only writers of the record."""

import logging
import secrets
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.utils import timezone

from record import heads
from record.access import Ability, require
from record.canonical import canonical_text, link_digest, statement_digest
from record.errors import BadInput
from record.kinds import KINDS
from record.models import ActorKind, ChainHead, Decision, Door, Event, Lab, Statement

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Author:
    """Who speaks, and by which door. A policy has no user."""

    kind: str
    name: str
    door: str
    user: User | None = None

    @classmethod
    def person(cls, user: User, door: str) -> "Author":
        return cls(ActorKind.PERSON, user.get_full_name() or user.get_username(), door, user)

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
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("record_decision belongs in the transaction of what it decides")
    if ruling.override and not ruling.reason.strip():
        raise BadInput("An override needs a reason: say why the state of things is overruled.")
    head = _lock_head(lab_id)
    salt = secrets.token_hex(16)
    payload = _payload(lab_id, head.count + 1, subject, author, ruling, salt)
    canonical = canonical_text(payload)
    decision = Decision(
        uuid=payload["uuid"],
        lab_id=lab_id,
        number=payload["number"],
        at=payload["at"],
        subject_kind=subject.kind,
        subject_uuid=subject.uuid,
        subject_label=payload["subject_label"],
        gate_uuid=ruling.gate_uuid,
        iteration=ruling.iteration,
        actor_kind=author.kind,
        actor=author.user,
        actor_name=payload["actor_name"],
        door=author.door,
        verdict=ruling.verdict,
        evidence=ruling.evidence,
        config_before=ruling.config_before,
        config_after=ruling.config_after,
        supersedes=ruling.supersedes,
        override=ruling.override,
        previous_digest=head.digest,
        canonical=canonical,
        digest=link_digest(head.digest, canonical),
    )
    decision.save()
    Statement.objects.create(decision=decision, salt=salt, reason=ruling.reason, answers=ruling.answers)
    ChainHead.objects.filter(pk=head.pk).update(count=decision.number, digest=decision.digest)
    transaction.on_commit(lambda: heads.append(lab_id, decision.number, decision.digest))
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
    """Write one line of the mechanical log. `kind` must stand in record.kinds.KINDS; else KeyError."""
    label = KINDS[kind].label
    return Event.objects.create(
        lab_id=lab_id,
        kind=kind,
        subject_kind=subject.kind,
        subject_uuid=subject.uuid,
        root_uuid=subject.root,
        message=(message or f"{subject.label}: {label}")[:1000],
        data=data or {},
        decision=decision,
    )


def strike_statement(*, decision: Decision, author: Author, reason: str) -> Decision:
    """Remove what a person wrote with a decision (a pasted secret), by a tombstone that keeps the chain valid.

    Administrators only; NotAllowed else. The striking is itself a decision, and is returned.
    """
    if author.user is None:
        raise BadInput("Only a person can strike a statement.")
    require(author.user, Ability.OVERRIDE, decision.lab_id)
    if not reason.strip():
        raise BadInput("Say why the statement is struck (without repeating the secret).")
    with transaction.atomic():
        tombstone = record_decision(
            lab_id=decision.lab_id,
            subject=Subject("decision", decision.uuid, f"decision {decision.number}"),
            author=author,
            ruling=Ruling("strike", reason=reason, supersedes=decision, override=True),
        )
        Statement.objects.filter(pk=decision.pk).update(reason="", answers={}, salt="", struck_by=tombstone)
    return tombstone


def _lock_head(lab_id: int) -> ChainHead:
    ChainHead.objects.get_or_create(lab_id=lab_id)
    heads_of_lab = ChainHead.objects.filter(lab_id=lab_id)
    if connection.features.has_select_for_update:
        heads_of_lab = heads_of_lab.select_for_update()
    return heads_of_lab.get()


def _payload(lab_id: int, number: int, subject: Subject, author: Author, ruling: Ruling, salt: str) -> dict[str, Any]:
    lab = Lab.objects.values_list("slug", flat=True).get(pk=lab_id)
    return {
        "uuid": str(uuid4()),
        "lab": lab,
        "number": number,
        "at": timezone.now().isoformat(),
        "subject_kind": subject.kind,
        "subject_uuid": str(subject.uuid),
        "subject_label": subject.label[:300],
        "gate_uuid": str(ruling.gate_uuid) if ruling.gate_uuid else None,
        "iteration": ruling.iteration,
        "actor_kind": author.kind,
        "actor": author.user.get_username() if author.user else None,
        "actor_name": author.name[:200],
        "door": author.door,
        "verdict": ruling.verdict,
        "evidence": ruling.evidence,
        "config_before": ruling.config_before,
        "config_after": ruling.config_after,
        "supersedes": str(ruling.supersedes.uuid) if ruling.supersedes else None,
        "override": ruling.override,
        "statement": statement_digest(salt, ruling.reason, ruling.answers),
    }
