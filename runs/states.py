"""The states of runs and phases and what may follow what."""

from django.db.models import TextChoices

from record.transitions import Machine, rule


class RunState(TextChoices):
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


RUN = Machine(
    "run",
    [
        rule("pause", "running", "paused"),
        rule("resume", "paused", "running"),
        rule("finish", "running", "done"),
        rule("reopen", "done", "running"),
        rule("cancel", "running paused", "cancelled"),
    ],
)


class PhaseState(TextChoices):
    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    VERIFYING = "verifying"
    CHECKPOINT = "checkpoint", "waiting at its gate"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


PASSED = frozenset({"done", "skipped"})

PHASE = Machine(
    "phase",
    [
        # Its gate before it opens where what it depends on is done; applied, the phase is ready.
        rule("make_ready", "pending", "ready"),
        rule("reach_checkpoint", "pending verifying", "checkpoint"),
        rule("pass_checkpoint", "checkpoint", "ready"),
        rule("ask_next", "checkpoint", "checkpoint"),
        rule("start", "ready", "running"),
        # Its job left the queue, and nobody knows how it ended: it rests there until that, or its outputs, are known.
        rule("await_end", "running", "verifying"),
        rule("go_on", "verifying", "running"),  # the job is heard of again, or the next one follows it
        rule("verify", "running verifying", "verifying"),
        rule("fast_forward", "ready", "verifying"),  # all of its outputs lie on disk already: nothing is started
        rule("finish", "verifying checkpoint", "done"),
        rule("fail", "ready running verifying checkpoint done", "failed"),
        rule("retry", "failed", "ready"),
        rule("skip", "pending ready failed checkpoint", "skipped"),
        rule("reset", "ready running verifying checkpoint done failed skipped", "pending"),
        # A replay is put back to before one of its gates was staged again.
        rule("put_back", "pending", "done"),
        rule("stop", "running verifying checkpoint", "failed"),
    ],
)


class Completion(TextChoices):
    """How much of a phase's outputs lie on disk; another axis than its state."""

    PENDING = "pending"
    PARTIAL = "partial"
    DONE = "done"
