"""What phases and jobs keep of a decision's words, when those are struck from the record."""

from jobs.models import Job
from record.copies import repeats, shorn
from record.models import Decision
from runs.models import Phase, Run, Staging


def clear_reasons(decision: Decision, reason: str) -> None:
    """Strike the reason where it says why a phase of the run, or a job of it, is as it is."""
    if not reason:
        return
    root = decision.root_uuid or decision.subject_uuid
    for phase in Phase.objects.filter(repeats("reason", reason), run__uuid=root):
        Phase.objects.filter(pk=phase.pk).update(reason=shorn(phase.reason, reason))
    for staging in Staging.objects.filter(run__uuid=root):
        for row in staging.before["phases"].values():
            row["reason"] = shorn(row["reason"], reason)
        Staging.objects.filter(pk=staging.pk).update(before=staging.before)
    Run.objects.filter(uuid=root, exports_state=True).update(state_event=0)  # the state file is written anew
    for job in Job.objects.filter(repeats("reason", reason), root_uuid=root):
        Job.objects.filter(pk=job.pk).update(reason=shorn(job.reason, reason))
