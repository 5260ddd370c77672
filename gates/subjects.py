"""What gates are about: each kind of subject has a keeper, which follows what becomes of its gates.

Registered by import string from an `AppConfig.ready()`: `register("phase", "runs.gatekeeping:KEEPER")`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from gates.models import Gate
from gates.protocols import Preparation
from record.errors import BadInput, ConductorError
from record.models import Decision
from record.registry import Registry
from record.services import Subject

_registry = Registry("keeper of gates' subjects")
register = _registry.register


@dataclass(frozen=True)
class Renewal:
    """What a gate is made of when it is reopened: as its subject describes it now."""

    protocol: str
    title: str
    context: str
    options: dict[str, Any]
    policy: dict[str, Any]


class Keeper(Protocol):
    """What a kind of subject does with its gates. Those after `describe` may be left out."""

    def applied(self, gate: Gate, decision: Decision) -> None:
        """Go on after the gate; in the transaction that makes it `applied`."""

    def closed(self, gate: Gate) -> None:
        """The gate ended without a decision (timed out, withdrawn); in that transaction."""

    def url(self, gate: Gate) -> str:
        """The subject's page."""

    def describe(self, gate: Gate) -> str:
        """The subject in a few words."""

    def renewal(self, gate: Gate) -> Renewal | None:
        """The gate as it would be asked for today; None: as it was."""

    def reopened(self, gate: Gate) -> None:
        """A new iteration (`gate`) has begun; in its transaction."""

    def lock(self, gate: Gate) -> None:
        """Lock the rows of the subject that any of these write, until the transaction ends; the gate comes after."""

    def preparation(self, gate: Gate, commands: list[list[str]]) -> Preparation:
        """How commands of a described gate (a renderer and its arguments) are run where the subject's data lie."""


class NoKeeper(ConductorError):
    """Nothing here looks after this kind of subject."""

    code = "no_keeper"


def keeper_of(gate: Gate) -> Keeper:
    """The keeper of the gate's subject; NoKeeper where none is installed."""
    found = _registry.find(gate.subject_kind)
    if found is None:
        raise NoKeeper(f"Nothing that is installed here looks after subjects of the kind {gate.subject_kind!r}.")
    return found


def renewal_of(gate: Gate) -> Renewal:
    """What a new iteration of `gate` is made of; as it was where the keeper says nothing else."""
    renewal = getattr(_registry.find(gate.subject_kind), "renewal", None)
    fresh = renewal(gate) if renewal else None
    return fresh or Renewal(gate.protocol, gate.title, gate.context, gate.options, gate.policy)


def lock_subject(gate: Gate) -> None:
    """Lock what the gate is about, where its keeper writes there, before the gate itself is locked."""
    lock = getattr(_registry.find(gate.subject_kind), "lock", None)
    if lock:
        lock(gate)


def tell_reopened(gate: Gate) -> None:
    """Tell the keeper, if it wants to hear of it, that a new iteration has begun."""
    reopened = getattr(_registry.find(gate.subject_kind), "reopened", None)
    if reopened:
        reopened(gate)


def tell_closed(gate: Gate) -> None:
    """Tell the keeper, if there is one, that the gate ended without a decision."""
    found = _registry.find(gate.subject_kind)
    if found:
        found.closed(gate)


def preparation_for(gate: Gate, commands: list[list[str]]) -> Preparation:
    """How these commands are run where the subject's data lie; BadInput where its keeper runs none."""
    preparation = getattr(keeper_of(gate), "preparation", None)
    if preparation is None:
        raise BadInput(f"Gates about a {gate.subject_kind} can't have evidence made by commands of their own.")
    return preparation(gate, commands)


def url(gate: Gate) -> str:
    """The page of the gate's subject; empty where nothing here looks after it."""
    found = _registry.find(gate.subject_kind)
    return found.url(gate) if found else ""


def describe(gate: Gate) -> str:
    """The gate's subject in a few words; its context as it was written where nothing here looks after it."""
    found = _registry.find(gate.subject_kind)
    return found.describe(gate) if found else gate.context


def subject_of(gate: Gate) -> Subject:
    """The gate's subject as decisions name it."""
    return Subject(gate.subject_kind, gate.subject_uuid, f"{gate.context}: {gate.title}"[:300], gate.root_uuid)
