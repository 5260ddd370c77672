"""What is due among jobs, whoever asks."""

import logging

from jobs.models import Job
from jobs.patience import Patience
from jobs.services import handle_final

log = logging.getLogger(__name__)

BATCH = 50
_patience = Patience(longest_s=300)


def handle_unhandled() -> int:
    """Do what follows the end of jobs where that is still to be done; how many were done. A bad row stops no other."""
    done = 0
    for job in Job.objects.unhandled().select_related("target").order_by("id")[:BATCH]:
        if not _patience.allows(job.pk):
            continue
        try:
            handled = handle_final(job)
        except Exception:
            log.exception("what follows the end of job %s failed; it is tried again", job.token)
            handled = False
        if handled:
            _patience.succeeded(job.pk)
            done += 1
        else:
            _patience.failed(job.pk)
    return done
