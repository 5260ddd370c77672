"""Stopping the demo's jobs, and taking the run up again afterwards."""

from django.contrib.auth.models import User
from django.db.models import QuerySet

from jobs.models import Job
from jobs.services import request_cancel
from record.models import Door
from record.services import Author
from runs.models import Phase, Run
from runs.services.control import pause_run, resume_run, retry_phase
from runs.states import PhaseState, RunState

STOPPED = "stopped with make demo-stop"


def live_jobs() -> QuerySet[Job]:
    """Jobs that have not ended, on any target."""
    return Job.objects.live().order_by("id")


def stop_jobs(user: User) -> int:
    """Pause what runs, so that nothing new starts, and ask for every live job to be cancelled; how many there were."""
    author = Author.person(user, Door.CLI)
    for run in Run.objects.filter(state=RunState.RUNNING):
        pause_run(run=run, author=author, reason=STOPPED)
    jobs = list(live_jobs())
    for job in jobs:
        request_cancel(job=job, author=author, reason=STOPPED)
    return len(jobs)


def take_up_again(run: Run, user: User) -> None:
    """Resume a run that was stopped, and try again the phases whose jobs were cancelled with it."""
    author = Author.person(user, Door.CLI)
    if run.state != RunState.PAUSED:
        return
    resume_run(run=run, author=author)
    for phase in Phase.objects.filter(run=run, state=PhaseState.FAILED):
        if Job.objects.about(phase).filter(state="cancelled", reason__contains=STOPPED).exists():
            retry_phase(phase=phase, author=author, reason="taken up again")
