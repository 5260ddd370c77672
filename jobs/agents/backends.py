"""By what an agent is asked: a job that runs a program or calls a model, or what an upper room registers (a person)."""

from typing import Any, Protocol

from django.utils.module_loading import import_string

from jobs.agents.configuration import COMMAND, OPENAI_HTTP, faults
from jobs.agents.models import Agent, Ask
from record.errors import BadInput
from record.services import Author

_PLACES: dict[str, str] = {
    "command": "jobs.agents.backends:COMMAND_BACKEND",
    "openai_http": "jobs.agents.backends:OPENAI_BACKEND",
}


class Backend(Protocol):
    label: str

    def faults(self, configuration: Any) -> list[str]:
        """What is wrong with an agent's configuration, in words."""

    def begin(self, ask: Ask, agent: Agent) -> None:
        """Put the question, in the caller's transaction. ConductorError, in words, where it can't be put."""

    def stop(self, ask: Ask, author: Author, reason: str) -> None:
        """Nobody wants the answer any more; in the caller's transaction."""


def register(key: str, place: str) -> None:
    """Say where the backend of `key` is: "module:attribute". It is imported at its first use."""
    _PLACES[key] = place


def names() -> list[str]:
    return sorted(_PLACES)


def backend_for(key: str) -> Backend:
    """The backend of that name; BadInput where there is none."""
    if key not in _PLACES:
        raise BadInput(f"There is no backend {key!r} for agents; there are: {', '.join(names())}.")
    found: Backend = import_string(_PLACES[key].replace(":", "."))
    return found


class _AsJob:
    """Asks by a job that runs jobs.agents.runner."""

    def __init__(self, label: str, schema: dict[str, Any]) -> None:
        self.label, self.schema = label, schema

    def faults(self, configuration: Any) -> list[str]:
        return faults(configuration, self.schema)

    def begin(self, ask: Ask, agent: Agent) -> None:
        from jobs.agents.asjob import plan_ask

        plan_ask(ask, agent)

    def stop(self, ask: Ask, author: Author, reason: str) -> None:
        from jobs.services import stop_job

        if ask.job is not None:
            stop_job(job=ask.job, author=author, reason=reason)


COMMAND_BACKEND = _AsJob("a command", COMMAND)
OPENAI_BACKEND = _AsJob("an OpenAI-compatible service", OPENAI_HTTP)
