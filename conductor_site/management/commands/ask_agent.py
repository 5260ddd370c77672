"""Ask an agent something, wait for the answer, and say in words how it went."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from jobs.agents.models import Agent, Ask
from jobs.agents.states import OUTCOMES, AskState
from jobs.agents.trying import try_agent
from jobs.models import ConductLease
from record.errors import ConductorError
from record.models import Door
from record.services import Author

PAUSE_S = 0.5
QUESTION = "Say in one sentence what you are."


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the agent's name")
        parser.add_argument("question", nargs="?", default=QUESTION, help=f"what to ask it (default: {QUESTION})")
        parser.add_argument("--lab", help="the lab's short name, where several labs have an agent of that name")
        parser.add_argument("--wait", type=int, default=0, help="seconds to wait (default: its own time limit and 60)")

    def handle(self, *args: Any, **options: Any) -> None:
        agent = _agent(options["name"], options["lab"])
        try:
            ask = try_agent(
                agent=agent, author=Author("policy", "the command line", Door.CLI), question=options["question"]
            )
        except ConductorError as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"Asked {agent.name}; isolation: {agent.get_isolation_display()}.")
        if agent.backend == "human" and not ask.is_ended:
            self.stdout.write("It waits in people's inboxes; their answer will stand on the ask's page.")
            return
        self._wait(ask, options["wait"] or agent.time_limit_s + 60)
        self._tell(ask)

    def _wait(self, ask: Ask, seconds: int) -> None:
        deadline, warned = time.monotonic() + seconds, False
        while not ask.is_ended:
            if time.monotonic() > deadline:
                raise CommandError(
                    f"No answer after {seconds} s. It is {_where(ask)}; the ask goes on without this command."
                )
            if not warned and not _conducted():
                warned = True
                self.stderr.write("No `manage.py conduct` has been at work lately: it must run for the ask to be put.")
            time.sleep(PAUSE_S)
            ask.refresh_from_db()

    def _tell(self, ask: Ask) -> None:
        self.stdout.write(f"{ask.get_state_display()}: {OUTCOMES[ask.state].meaning}")
        for line in filter(None, [ask.why, (ask.result or {}).get("answer", ""), ask.isolation_text.capitalize()]):
            self.stdout.write(f"  {line}")
        if ask.tokens_in is not None:
            self.stdout.write(f"  {ask.tokens_in} tokens in, {ask.tokens_out} out")
        if ask.cost_usd is not None:
            self.stdout.write(f"  {ask.cost_usd:.6f} US dollars")
        if ask.state != AskState.OK:
            raise CommandError(f"{ask.agent_name} gave no answer that can be used.")


def _agent(name: str, lab: str | None) -> Agent:
    found = list(Agent.objects.filter(name=name, **({"lab__slug": lab} if lab else {})).select_related("lab"))
    if not found:
        names = ", ".join(Agent.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"There is no agent {name}. There are: {names}.")
    if len(found) > 1:
        labs = ", ".join(agent.lab.slug for agent in found)
        raise CommandError(f"Several labs have an agent {name} ({labs}): say which with --lab.")
    return found[0]


def _conducted() -> bool:
    """Whether some `conduct` has beaten in the last minute."""
    last = ConductLease.objects.order_by("-beat_at").values_list("beat_at", flat=True).first()
    return last is not None and (timezone.now() - last).total_seconds() < 60 + settings.SQLITE_TIMEOUT_S


def _where(ask: Ask) -> str:
    return f"{ask.get_state_display().lower()}" + (
        f", its job {ask.job.get_state_display().lower()}" if ask.job else ""
    )
