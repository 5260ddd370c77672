"""The states of an ask: it waits, it is put, and it ends in one of the outcomes of this table, for good."""

from dataclasses import dataclass

from django.db.models import TextChoices

from record.transitions import Machine, rule


class AskState(TextChoices):
    WAITING = "waiting"
    ASKED = "asked"
    OK = "ok", "answered"
    FAILED = "failed"
    BLOCKED = "blocked"
    INFRA = "infra", "could not be asked"
    RATE_LIMITED = "rate_limited", "rate limited"
    CONTENT_POLICY = "content_policy", "refused by a content policy"
    TIMED_OUT = "timed_out", "timed out"
    NO_STATUS = "no_status", "unreadable"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True)
class Outcome:
    """How an ask can end: by which event, what that means, and whether asking the same again can help."""

    event: str
    meaning: str
    again: bool


OUTCOMES: dict[str, Outcome] = {
    AskState.OK: Outcome("answer", "It answered, and the answer holds against what was asked for.", False),
    AskState.FAILED: Outcome("fail", "It ended with an error, wrote too much, or its answer doesn't hold.", True),
    AskState.BLOCKED: Outcome("block", "It says that it can't answer this.", False),
    AskState.INFRA: Outcome("break_down", "It was never reached: a program, a key or a connection is missing.", True),
    AskState.RATE_LIMITED: Outcome("limit", "Its provider takes no more for now.", True),
    AskState.CONTENT_POLICY: Outcome("refuse", "Its provider's content policy forbade question or answer.", False),
    AskState.TIMED_OUT: Outcome("time_out", "It gave no answer within its time limit.", True),
    AskState.NO_STATUS: Outcome("lose", "What it wrote can't be read as an answer.", True),
    AskState.WITHDRAWN: Outcome("withdraw", "Nobody wanted the answer any more.", True),
}
ENDED = frozenset(OUTCOMES)

ASK = Machine(
    "ask",
    [
        rule("begin", "waiting", "asked"),
        *(rule(outcome.event, "waiting asked", state) for state, outcome in OUTCOMES.items()),
    ],
)
