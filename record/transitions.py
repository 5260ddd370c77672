"""State as a table: one line a rule, one function that applies it."""

from dataclasses import dataclass
from typing import Any

from django.db import models, transaction

from record.errors import InvalidTransition, StaleState
from record.models import Decision
from record.prepared import update
from record.services import Subject, record_event


@dataclass(frozen=True)
class Rule:
    """On `event`, a row in one of `sources` goes to `target`."""

    event: str
    sources: frozenset[str]
    target: str


def rule(event: str, sources: str, target: str) -> Rule:
    """A rule with its sources as words."""
    return Rule(event, frozenset(sources.split()), target)


class Machine:
    """The rules of one kind of thing. `kind` is its name in events (`phase.start`); the state lives in `field`."""

    def __init__(self, kind: str, rules: list[Rule], *, field: str = "state") -> None:
        self.kind = kind
        self.rules = rules
        self.field = field
        self._by_event: dict[str, list[Rule]] = {}
        for each in rules:
            if any(self.allows(state, each.event) for state in each.sources):
                raise ValueError(f"two rules of {kind} for {each.event} from the same state")
            self._by_event.setdefault(each.event, []).append(each)

    def events(self) -> list[str]:
        """The events there are, in the table's order."""
        return list(self._by_event)

    def allows(self, state: str, event: str) -> bool:
        """Whether `event` means something in `state`."""
        return any(state in each.sources for each in self._by_event.get(event, []))

    def target(self, state: str, event: str) -> str:
        """The state that follows; KeyError where the table has no rule."""
        for each in self._by_event.get(event, []):
            if state in each.sources:
                return each.target
        raise KeyError((state, event))

    def apply(
        self,
        row: models.Model,
        event: str,
        *,
        lab_id: int,
        subject: Subject,
        message: str = "",
        data: dict[str, Any] | None = None,
        decision: Decision | None = None,
        where: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Move `row` by `event`, setting `changes`, and log the event; call it inside a transaction.

        The update is conditional on the state that was seen (and on `where`), so of two writers one wins. `changes` may
        be expressions (`F("attempt") + 1`); `row` then holds what they came to.
        Raises InvalidTransition where the table has no rule, StaleState where another writer was first; `row` is then
        as it was.
        """
        if not transaction.get_connection().in_atomic_block:
            raise RuntimeError(f"{self.kind}.{event} belongs in a transaction, with the event that it logs")
        old = getattr(row, self.field)
        if not self.allows(old, event):
            raise InvalidTransition(
                f"{subject.label} is {old}: it can't {event.replace('_', ' ')} now.",
                extra={"state": old, "event": event},
            )
        new = self.target(old, event)
        seen = {"pk": row.pk, self.field: old, **(where or {})}
        if update(type(row), where=seen, changes={self.field: new, **changes}) != 1:
            raise StaleState(f"{subject.label} was changed by someone else; look again and repeat if it still fits.")
        _take_over(row, {self.field: new, **changes})
        record_event(
            lab_id=lab_id,
            kind=f"{self.kind}.{event}",
            subject=subject,
            message=message,
            data=(data or {}) | {"from": old, "to": new},
            decision=decision,
        )


def _take_over(row: models.Model, changes: dict[str, Any]) -> None:
    computed = [name for name, value in changes.items() if hasattr(value, "resolve_expression")]
    for name, value in changes.items():
        if name not in computed:
            setattr(row, name, value)
    if computed:
        row.refresh_from_db(fields=computed)
