"""Stopping the demo's jobs, and taking the run up again afterwards."""

import subprocess
import sys
import time
from contextlib import suppress

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from gates.models import Gate
from gates.services import retry_preparing
from gates.states import GateState
from jobs.models import Job
from jobs.services import request_cancel
from jobs.states import JobState
from record.errors import InvalidTransition, StaleState
from record.models import Door, Event
from record.services import Author
from runs.models import Phase, Run
from runs.services.control import pause_run, resume_run, retry_phase
from runs.states import PhaseState, RunState

STOPPED = "stopped with make demo-stop"
PATIENCE_S = 60


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


def end_jobs(user: User) -> int:
    """As stop_jobs, and wait until none is left; RuntimeError, with their names, where that takes a minute."""
    count = stop_jobs(user)
    if live_jobs().exists():
        # Jobs are killed by `conduct`. Where none runs, one does it now; where one runs, this one leaves it the lead.
        conduct = _start_conduct()
        try:
            _wait_for_ends()
        finally:
            conduct.terminate()
            conduct.wait()
    return count


def _start_conduct() -> subprocess.Popen[bytes]:
    """One `conduct`, which writes where that of `make demo` writes."""
    logs = settings.DATA_DIR / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with (logs / "conduct.log").open("ab") as log:
        argv = [sys.executable, "manage.py", "conduct"]
        return subprocess.Popen(argv, cwd=settings.BASE_DIR, stdout=log, stderr=log)  # noqa: S603 - argv is ours


def _wait_for_ends() -> None:
    deadline = time.monotonic() + PATIENCE_S
    while live_jobs().exists():
        if time.monotonic() > deadline:
            names = ", ".join(job.name for job in live_jobs())
            raise RuntimeError(f"Not cancelled after {PATIENCE_S} s: {names}. Look at their pages for the reason")
        time.sleep(0.2)


def take_up_again(run: Run, user: User) -> None:
    """Resume a run that `make demo-stop` paused; one that a person paused stays as it is."""
    paused = Event.objects.filter(subject_uuid=run.uuid, kind="run.pause").order_by("id").last()
    if run.state == RunState.PAUSED and paused is not None and STOPPED in paused.message:
        resume_run(run=run, author=Author.person(user, Door.CLI))


def retry_stopped(run: Run, user: User) -> int:
    """Try again the phases and the evidence of a running run whose jobs were cancelled with the demo; how many.

    To be asked again and again: what was cancelled may end, and be seen to have ended, after the run was taken up.
    """
    if run.state != RunState.RUNNING:
        return 0
    author = Author.person(user, Door.CLI)
    phases = filter(_was_stopped, Phase.objects.filter(run=run, state=PhaseState.FAILED))
    gates = filter(_was_stopped, Gate.objects.filter(root_uuid=run.uuid, state=GateState.PREPARE_FAILED))
    count = 0
    with suppress(InvalidTransition, StaleState):  # somebody was quicker, or stopped it again
        for phase in phases:
            retry_phase(phase=phase, author=author, reason="taken up again")
            count += 1
        for gate in gates:
            retry_preparing(gate_id=gate.pk, author=author)
            count += 1
    return count


def _was_stopped(subject: Phase | Gate) -> bool:
    """Whether the last job for it was cancelled with the demo."""
    last = Job.objects.about(subject).first()
    return last is not None and last.state == JobState.CANCELLED and STOPPED in last.reason
