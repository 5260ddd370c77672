"""The states of a job and what may follow what. Final states never change."""

from django.db.models import TextChoices

from record.transitions import Machine, rule


class JobState(TextChoices):
    PLANNED = "planned"
    SUBMITTING = "submitting"
    QUEUED = "queued"
    RUNNING = "running"
    UNKNOWN = "unknown"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out", "timed out"
    OUT_OF_MEMORY = "out_of_memory", "out of memory"
    NODE_FAILED = "node_failed", "node failed"
    PREEMPTED = "preempted"


FINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out", "out_of_memory", "node_failed", "preempted"})
AWAY = frozenset({"submitting", "queued", "running", "unknown", "lost"})  # something of it may be out there

_AWAY = " ".join(sorted(AWAY))

JOB = Machine(
    "job",
    [
        rule("claim", "planned", "submitting"),
        # Also of what was handed over: it died before the script began, and may be tried again.
        rule("reclaim", "submitting queued running unknown", "submitting"),
        rule("enqueue", "submitting unknown", "queued"),
        rule("start", "submitting queued unknown", "running"),
        rule("lose_sight", "submitting queued running", "unknown"),
        rule("lose", "unknown", "lost"),
        rule("requeue", "running", "queued"),  # by the scheduler, under the same id
        rule("find", "lost", "unknown"),  # late evidence: what it says is settled from there
        rule("succeed", _AWAY, "succeeded"),
        rule("fail", _AWAY, "failed"),
        rule("cancel", f"planned {_AWAY}", "cancelled"),
        rule("time_out", _AWAY, "timed_out"),
        rule("run_out_of_memory", _AWAY, "out_of_memory"),
        rule("fail_node", _AWAY, "node_failed"),
        rule("preempt", _AWAY, "preempted"),
    ],
)
