"""What is due among jobs, whoever asks."""

from jobs.hosts import this_host
from jobs.models import Job
from jobs.patience import Patience
from jobs.services import handle_final
from record.logkeys import about

MOST = 50
_patience = Patience(longest_s=300)


def handle_unhandled() -> int:
    """Do what follows the end of jobs where that is still to be done; how many were done. A bad row stops no other.

    Jobs on local targets of other hosts are left to those: what they wrote can't be seen from here. Those of clusters
    are dealt with in the clusters' turns: what they wrote may lie behind a slow connection.
    """
    due = Job.objects.unhandled().within_reach(this_host()).exclude(target__kind="slurm").order_by("id")
    return _patience.each(due.values_list("pk", flat=True), _follow_end, most=MOST)


def handle_unhandled_at(target_id: int) -> int:
    """The same for one cluster's jobs, in its turn."""
    due = Job.objects.unhandled().filter(target_id=target_id).order_by("id")
    return _patience.each(due.values_list("pk", flat=True), _follow_end, most=MOST)


def _follow_end(pk: int) -> bool:
    job = Job.objects.unhandled().select_related("target").filter(pk=pk).first()
    if job is None:
        return False
    with about(**job.log_keys()):
        return handle_final(job)
