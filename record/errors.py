"""One family of errors; each tells a person what happened to what, and what to do."""

from typing import Any


class ConductorError(Exception):
    """Something Conductor refuses or could not do.

    `message` is for people; `code` is a stable word for programs; `extra` holds JSON values that help a client.
    """

    status = 500
    code = "error"

    def __init__(self, message: str, *, code: str | None = None, extra: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.extra = extra or {}


class BadInput(ConductorError):
    """What was given cannot be used; nothing was changed."""

    status = 400
    code = "bad_input"


class NotAllowed(ConductorError):
    """This person or agent may not do that."""

    status = 403
    code = "not_allowed"


class InvalidTransition(ConductorError):
    """The thing is in a state in which that event means nothing."""

    status = 409
    code = "invalid_transition"


class StaleState(ConductorError):
    """Somebody else changed the thing in between; look again."""

    status = 409
    code = "stale"


class AdapterError(ConductorError):
    """Something outside (a scheduler, a disk, a shell) failed; `transient` says whether trying again can help."""

    status = 502
    code = "adapter"

    def __init__(self, message: str, *, transient: bool, extra: dict[str, Any] | None = None) -> None:
        super().__init__(message, extra=extra)
        self.transient = transient
