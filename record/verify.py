"""Walks the chains and tells, in words, whatever doesn't hold. Memory stays constant however long a chain is."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import connections
from django.db.models import F, Q, QuerySet

from record import heads
from record.canonical import canonical_text, link_digest, statement_digest
from record.models import GENESIS, ChainHead, Decision, Lab, Statement
from record.services import STRIKE, payload
from record.triggers import missing_triggers, unprotected

ROWS_AT_ONCE = 500
# Names that may change after a decision was made; their keys, which don't, are under the hash too.
RENAMEABLE = {"lab", "actor"}


@dataclass(frozen=True)
class Fault:
    """Something that doesn't hold. `lab` is a slug, or "" for what concerns all; `number` is the decision's."""

    lab: str
    number: int | None
    message: str

    def __str__(self) -> str:
        where = [f"lab {self.lab}"] if self.lab else []
        where += [f"decision {self.number}"] if self.number else []
        return f"{', '.join(where)}: {self.message}" if where else self.message


def verify_record(labs: QuerySet[Lab]) -> Iterator[Fault]:
    """Every fault of these labs' chains, of the heads kept outside the database, and of the database's protection."""
    if missing := missing_triggers(connections[labs.db]):
        yield Fault("", None, unprotected(missing))
    for lab in labs.order_by("pk"):
        yield from verify_chain(lab)
    yield from verify_heads_file(labs)


def verify_chain(lab: Lab) -> Iterator[Fault]:
    """Every fault of one lab's chain. Decisions that are added meanwhile are left for the next time."""
    head = ChainHead.objects.filter(lab=lab).first() or ChainHead(lab=lab)
    decisions = Decision.objects.filter(lab=lab, number__lte=head.count).order_by("number")
    walked, digest = 0, GENESIS
    for decision in decisions.in_full().iterator(ROWS_AT_ONCE):
        for message in _faults_of(decision, walked, digest):
            yield Fault(lab.slug, decision.number, message)
        walked, digest = decision.number, decision.digest
    for message in _faults_of_head(head, walked, digest):
        yield Fault(lab.slug, None, message)
    yield from _beyond_the_head(lab)


def verify_heads_file(labs: QuerySet[Lab]) -> Iterator[Fault]:
    """What the heads outside the database know of these labs and the database doesn't."""
    slugs = dict(labs.values_list("pk", "slug"))
    tallies: dict[int, _Tally] = {}
    everything = labs.count() == Lab.objects.count()
    stream = (head for head in heads.stream() if head.lab_id in slugs or everything)
    while batch := list(islice(stream, ROWS_AT_ONCE)):
        known = _digests(batch)
        for head in batch:
            tallies.setdefault(head.lab_id, _Tally()).add(head, known.get((head.lab_id, head.number)))
    for lab_id, tally in sorted(tallies.items()):
        slug = slugs.get(lab_id, f"with key {lab_id} (which is not in the database)")
        for message in tally.messages():
            yield Fault(slug, None, message)


@dataclass
class _Tally:
    """What was found of one lab's heads: how many have no decision, how many another, and the lowest number of each."""

    gone: int = 0
    gone_from: int = 0
    other: int = 0
    other_from: int = 0

    def add(self, head: heads.Head, digest: str | None) -> None:
        if digest is None:
            self.gone, self.gone_from = self.gone + 1, min(self.gone_from or head.number, head.number)
        elif digest != head.digest:
            self.other, self.other_from = self.other + 1, min(self.other_from or head.number, head.number)

    def messages(self) -> Iterator[str]:
        cause = "The database was put back to an older state, cut, or exchanged for another."
        if self.gone:
            yield (
                f"the heads kept outside the database know of {counted(self.gone)} that the database has not, from"
                f" number {self.gone_from} on. {cause}"
            )
        if self.other:
            yield (
                f"the heads kept outside the database know of {self.other} other {_plural(self.other)} than the"
                f" database's own, from number {self.other_from} on. {cause}"
            )


def _faults_of(decision: Decision, walked: int, digest: str) -> Iterator[str]:
    """Faults of one decision, where `walked` and `digest` are the number and digest of the one before it."""
    if decision.number != walked + 1:
        yield f"the record has a gap: {_range(walked + 1, decision.number - 1)} missing before it."
    elif decision.previous_digest != digest:
        yield "it does not follow the decision before it: the chain forks, or that one was exchanged."
    if link_digest(decision.previous_digest, decision.canonical) != decision.digest:
        yield "its text was changed: the digest is not that of the text."
    try:
        told = json.loads(decision.canonical)
    except ValueError:
        yield "its text can't be read."
        return
    if not isinstance(told, dict) or canonical_text(told) != decision.canonical:
        yield "its text is not in the form in which it was recorded."
        return
    yield from _faults_of_columns(decision, told)
    yield from _faults_of_statement(decision, told.get("statement"))


def _faults_of_columns(decision: Decision, told: dict[str, Any]) -> Iterator[str]:
    columns = payload(decision, told.get("statement", ""))
    for name in sorted((columns.keys() | told.keys()) - RENAMEABLE):
        if name not in told or name not in columns or _spelling(columns[name]) != _spelling(told[name]):
            yield f"its column {name} was changed: it differs from the text that the digest is over."
    if decision.supersedes_id and not decision.supersedes:
        yield "its column supersedes was changed: there is no such decision."


def _faults_of_statement(decision: Decision, expected: str | None) -> Iterator[str]:
    statement = getattr(decision, "statement", None)
    if statement is None:
        yield "what was written with it is gone, though nobody struck it."
    elif statement.struck_by_id is None:
        if statement_digest(statement.salt, statement.reason, statement.answers) != expected:
            yield "what was written with it (reason or answers) was changed."
    else:
        yield from _faults_of_striking(decision, statement, statement.struck_by)
    if decision.verdict == STRIKE and decision.supersedes and _is_there(decision.supersedes):
        yield f"it strikes what was written with decision {decision.supersedes.number}, which is there again."


def _is_there(decision: Decision) -> bool:
    return Statement.objects.filter(pk=decision.pk, struck_by=None).exists()


def _faults_of_striking(decision: Decision, statement: Statement, tombstone: Decision | None) -> Iterator[str]:
    if statement.reason or statement.answers or statement.salt:
        yield "what was written with it is marked as struck, and yet there."
    if tombstone is None:
        yield "what was written with it was struck by a decision that is not there."
        return
    names_it = tombstone.verdict == STRIKE and tombstone.override and tombstone.supersedes_id == decision.pk
    if not names_it or tombstone.lab_id != decision.lab_id or tombstone.number <= decision.number:
        yield f"what was written with it was struck by decision {tombstone.number}, which says nothing of it."


def _faults_of_head(head: ChainHead, walked: int, digest: str) -> Iterator[str]:
    if walked < head.count:
        yield f"the end of the record was cut: {_range(walked + 1, head.count)} missing."
    elif head.digest != digest:
        yield f"the head of the chain was changed: its digest is not that of decision {walked}."


def _beyond_the_head(lab: Lab) -> Iterator[Fault]:
    """Decisions that the head doesn't count (asked in one statement, so that one recorded right now is no fault)."""
    no_head, past_it = Q(lab__chain_head=None), Q(number__gt=F("lab__chain_head__count"))
    beyond = Decision.objects.filter(no_head | past_it | Q(number__lt=1), lab=lab)
    for number in beyond.order_by("number").values_list("number", flat=True)[:10]:
        yield Fault(lab.slug, number, "it lies beyond the head of the chain: it was put in past the record's services.")


def _digests(batch: list[heads.Head]) -> dict[tuple[int, int], str]:
    known: dict[tuple[int, int], str] = {}
    for lab_id in {head.lab_id for head in batch}:
        numbers = [head.number for head in batch if head.lab_id == lab_id]
        rows = Decision.objects.filter(lab_id=lab_id, number__in=numbers).order_by()
        known |= {(lab_id, number): digest for number, digest in rows.values_list("number", "digest")}
    return known


def _spelling(value: Any) -> str:
    return canonical_text({"value": value})


def _plural(count: int) -> str:
    return "decision" if count == 1 else "decisions"


def counted(count: int) -> str:
    """So many decisions, in words."""
    return f"{count} {_plural(count)}"


def _range(first: int, last: int) -> str:
    return f"decision {first} is" if first == last else f"decisions {first} to {last} are"
