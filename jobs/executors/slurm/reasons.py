"""Why a job waits, in words. SLURM's own word is always kept beside them."""

from dataclasses import dataclass

NOTHING = frozenset({"", "None", "(null)", "N/A"})


@dataclass(frozen=True)
class Reason:
    """`needs_somebody`: it will not start until somebody does something about it."""

    words: str
    needs_somebody: bool = False


def _stuck(words: str) -> Reason:
    return Reason(words, needs_somebody=True)


REASONS: dict[str, Reason] = {
    "Priority": Reason("jobs of higher priority go first"),
    "Resources": Reason("it waits for nodes to come free"),
    "BeginTime": Reason("its begin time has not come (after a requeue SLURM waits two minutes)"),
    "Cleaning": Reason("what it left from its last start is being cleaned up"),
    "Dependency": Reason("it waits for a job that it depends on"),
    "JobArrayTaskLimit": Reason("its array runs as many tasks at once as it may"),
    "Licenses": Reason("it waits for a licence"),
    "Prolog": Reason("the cluster's prolog runs for it"),
    "Reservation": Reason("it waits for its reservation to begin"),
    "ReqNodeNotAvail": Reason("a node that it asks for is not available (down, reserved or in maintenance)"),
    "NodeDown": Reason("a node that it asks for is down"),
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": Reason(
        "the nodes that it asks for are down, drained or reserved"
    ),
    "FrontEndDown": Reason("no front end node is available"),
    "BurstBufferResources": Reason("it waits for burst buffer space"),
    "BurstBufferStageIn": Reason("its data is being staged in"),
    "SchedDefer": Reason("the scheduler looks at it later"),
    "MaxRequeue": _stuck("it was requeued as often as the cluster allows"),
    "JobHeldAdmin": _stuck("an administrator of the cluster holds it"),
    "JobHeldUser": _stuck("its user holds it (scontrol release lets it go)"),
    "launch_failed_requeued_held": _stuck("it could not be launched and is held (see the cluster's log)"),
    "JobHoldMaxRequeue": _stuck("it was requeued as often as the cluster allows, and is held"),
    "DependencyNeverSatisfied": _stuck("a job that it depends on ended otherwise than it wants: it will never start"),
    "PartitionDown": _stuck("its partition is down: nothing starts there until an administrator opens it"),
    "PartitionInactive": _stuck("its partition is inactive: nothing starts there until an administrator opens it"),
    "PartitionConfig": _stuck("it asks for what no node of its partition has"),
    "PartitionNodeLimit": _stuck("it asks for more nodes than its partition gives"),
    "PartitionTimeLimit": _stuck("it asks for more time than its partition gives"),
    "BadConstraints": _stuck("no node can ever have what it asks for"),
    "InvalidAccount": _stuck("its account is not valid"),
    "InvalidQOS": _stuck("its quality of service is not valid"),
    "AccountNotAllowed": _stuck("its partition does not take its account"),
    "QOSNotAllowed": _stuck("its partition does not take its quality of service"),
    "ReservationDeleted": _stuck("its reservation was deleted"),
    "NonZeroExitCode": Reason("it ended with an exit code other than 0"),
    "JobLaunchFailure": Reason("it could not be launched, or its processes were killed"),
    "RaisedSignal": Reason("it was ended by a signal"),
    "TimeLimit": Reason("it ran into its time limit"),
    "OutOfMemory": Reason("it used more memory than it had asked for"),
    "NodeFail": Reason("a node failed"),
    "SystemFailure": Reason("the cluster itself failed"),
}
FAMILIES = {
    "AssocGrp": "the group's share for its account is used up",
    "AssocMax": "its user has as much running or queued as the account allows",
    "QOSGrp": "the share of its quality of service is used up",
    "QOSMax": "its user has as much running or queued as its quality of service allows",
    "QOSMin": "it asks for less than its quality of service demands",
    "QOSUsage": "the usage limit of its quality of service is reached",
    "Assoc": "a limit of its account holds it",
    "QOS": "a limit of its quality of service holds it",
}


def reason_of(text: str) -> Reason:
    """A reason as squeue prints it (%r), in words. Limits are known by how their names begin; others stay as they are.

    Limits of accounts and qualities of service pass by themselves, except where the job alone is too large for them.
    """
    plain = text.strip().strip("()").replace(" ", "_")
    if text.strip() in NOTHING or plain in NOTHING:
        return Reason("")
    first = plain.split(",")[0]
    for known in (plain, first):
        if known in REASONS:
            return REASONS[known]
    for beginning, words in FAMILIES.items():
        if plain.startswith(beginning):
            alone = "PerJob" in plain
            return Reason(f"{words}: it alone asks for more" if alone else words, needs_somebody=alone)
    return Reason("")


def waiting_words(text: str) -> str:
    """One sentence on why a job waits, with SLURM's own word; "" where SLURM gives no reason."""
    reason = reason_of(text)
    own = text.strip().strip("()")
    if own in NOTHING:
        return ""
    if not reason.words:
        return f"It waits in the queue ({own})."
    tail = " Somebody has to do something about it." if reason.needs_somebody else ""
    return f"It waits in the queue: {reason.words} ({own}).{tail}"
