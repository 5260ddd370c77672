"""Agents that are real programs, and asks whose jobs are really run."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from jobs.agents.models import Agent, Ask
from jobs.agents.prompts import Template
from jobs.agents.services import Question, ask_agent
from jobs.hands import local_environment
from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.services import handle_final
from jobs.states import JOB
from record.models import Door, Lab
from record.services import Author, Subject
from record.tests.factories import People

JUDGE = Template(
    key="judge",
    version=1,
    question="Is this tomogram good?",
    properties={
        "verdict": {"enum": ["good", "suspect", "bad"]},
        "reason": {"type": "string", "minLength": 1, "maxLength": 600},
    },
    required=("verdict", "reason"),
)
GOOD = '{"status": "ok", "verdict": "good", "reason": "sharp"}'


class Desk:
    """A lab's people, a target, and agents on it."""

    def __init__(self, people: People, lab: Lab, folder: Path) -> None:
        self.people, self.lab, self.folder = people, lab, folder
        self.author = Author.person(people.reviewer, Door.WEB)
        for each in ("work", "jobs"):
            (folder / each).mkdir()
        self.target = Target.objects.create(
            lab=lab, name="here", host=this_host(), roots=[str(folder / "work")], job_folder=str(folder / "jobs"),
        )  # fmt: skip

    def agent(self, program: str, *, name: str = "claire", **fields: Any) -> Agent:
        """An agent that is this bash program."""
        configuration = {"command": ["/bin/bash", "-c", program]} | fields.pop("configuration", {})
        defaults = {"backend": "command", "family": "bash", "role": "looks at tomograms", "time_limit_s": 20}
        return Agent.objects.create(lab=self.lab, name=name, configuration=configuration, **(defaults | fields))

    def ask(self, agent: Agent, *items: str, data: dict[str, str] | None = None, **fields: Any) -> list[Ask]:
        """Ask about these items of the agent itself."""
        questions = [Question(JUDGE, data or {"figures": "residual: 1.2"}, item, **fields) for item in items or ("",)]
        return ask_agent(agent_id=agent.pk, author=self.author, subject=agent.subject(), questions=questions)

    def asked(self, agent: Agent, **fields: Any) -> Ask:
        """Ask once, run its job, and take the answer."""
        (ask,) = self.ask(agent, **fields)
        run_asks()
        ask.refresh_from_db()
        return ask


def run_asks(limit: int = 100) -> int:
    """Run all jobs that are planned, one after the other, until none is left; how many were run."""
    count = 0
    while (job := Job.objects.planned().order_by("id").first()) and count < limit:
        run_job(job)
        handle_final(job)
        count += 1
    return count


def run_job(job: Job) -> None:
    """Run a job's script as the local target would, to its end, and record how it ended."""
    with transaction.atomic():
        for event in ("claim", "start"):
            JOB.apply(job, event, lab_id=job.lab_id, subject=job.subject())
    script = Path(job.work_dir) / f"{job.token}.sh"
    script.write_text(job.script)
    done = subprocess.run(
        ["/bin/bash", str(script)], cwd=job.work_dir, env=local_environment(job), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    for path, text in ((job.stdout_path, done.stdout), (job.stderr_path, done.stderr)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    with transaction.atomic():
        event = "succeed" if done.returncode == 0 else "fail"
        JOB.apply(
            job, event, lab_id=job.lab_id, subject=job.subject(), exit_code=done.returncode, ended_at=timezone.now()
        )


def about(agent: Agent) -> Subject:
    return agent.subject()


PYTHON = sys.executable
