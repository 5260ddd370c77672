"""What a gate refuses, and why. Each has a stable code, so that a page and a program can tell them apart.

code               status  what to do
decided            409     look at the decision; reopen the gate if it must change
not_open           409     wait until it is open, or reopen it
stale              409     look at what changed, and answer again
already_answered   409     another person must answer; or give another answer to replace yours
not_allowed        403     ask one of those named
unknown_protocol   409     the gate can be read, not answered, until its protocol is installed again
reason_owed        400     say why
invalid_answers    400     `extra.errors` is field -> list of texts
bad_verdict        400     `extra.verdicts` lists what can be said
bad_policy         400     mend the pipeline's description
no_additions       403     let the gate's pipeline allow it
name_taken         409     give the file another name
too_large          413     send a smaller file
out_of_range       416     ask for bytes that the file has
"""

from dataclasses import dataclass, field
from typing import Any

from record.errors import BadInput, ConductorError, InvalidTransition, NotAllowed, StaleState


class NoSuchGate(ConductorError):
    """There is no such gate, or not for this person."""

    status = 404
    code = "no_such_gate"


class GateClosed(InvalidTransition):
    """The gate is not open: decided already, being prepared, timed out or withdrawn."""

    code = "not_open"


class StaleAnswer(StaleState):
    """The answer was given on other evidence than the gate shows now."""


class ReasonOwed(BadInput):
    """This verdict, or this difference from the suggestion, needs a reason."""

    code = "reason_owed"


class InvalidAnswers(BadInput):
    """The form's fields don't hold; `extra["errors"]` is field -> list of texts."""

    code = "invalid_answers"


class UnknownProtocol(InvalidTransition):
    """The gate's protocol is not installed here."""

    code = "unknown_protocol"


class EvidenceLost(ConductorError):
    """A piece of evidence is not in the store any more, or not what it was."""

    status = 410
    code = "evidence_lost"


class NoAdditions(NotAllowed):
    """The gate's protocol lets nobody add evidence."""

    code = "no_additions"


class TooLarge(ConductorError):
    """A piece of evidence is larger than the store takes."""

    status = 413
    code = "too_large"


_CLASSES: dict[str, type[ConductorError]] = {
    "decided": GateClosed,
    "not_open": GateClosed,
    "unknown_protocol": UnknownProtocol,
    "already_answered": StaleState,
    "not_allowed": NotAllowed,
}


@dataclass(frozen=True)
class Refusal:
    """Why somebody may not answer, in words, with the code of the error that answering would raise."""

    code: str
    message: str
    extra: dict[str, Any] = field(default_factory=dict)

    def error(self) -> ConductorError:
        """The error that says the same."""
        return _CLASSES[self.code](self.message, code=self.code, extra=self.extra)
