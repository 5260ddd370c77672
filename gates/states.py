"""The states of a gate (one iteration of it) and what may follow what."""

from django.db.models import TextChoices

from record.transitions import Machine, rule


class GateState(TextChoices):
    PREPARING = "preparing"
    PREPARE_FAILED = "prepare_failed", "preparation failed"
    OPEN = "open"
    DECIDED = "decided"
    APPLYING = "applying"
    APPLY_FAILED = "apply_failed", "applying failed"
    APPLIED = "applied"
    TIMED_OUT = "timed_out", "timed out"
    WITHDRAWN = "withdrawn"


ENDED = frozenset({"applied", "timed_out", "withdrawn"})
UNDECIDED = frozenset({"preparing", "prepare_failed", "open"})

GATE = Machine(
    "gate",
    [
        rule("open", "preparing", "open"),
        rule("fail_preparing", "preparing", "prepare_failed"),
        rule("retry_preparing", "prepare_failed", "preparing"),
        rule("decide", "open", "decided"),
        rule("begin_applying", "decided", "applying"),
        rule("apply", "applying", "applied"),
        rule("fail_applying", "applying", "apply_failed"),
        rule("retry_applying", "apply_failed", "applying"),
        rule("time_out", "open", "timed_out"),
        # Also where a decision can't be applied at all: then the only way on is a new iteration.
        rule("withdraw", "preparing prepare_failed open apply_failed", "withdrawn"),
    ],
)
