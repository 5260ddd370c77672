"""What is measured on: a lab with one person, this machine as its target, and pipelines of phases that do nothing."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.utils import timezone

from conductor_site.api.tokens import make_token
from jobs.hosts import this_host
from jobs.models import Job, Target
from record.access import Role
from record.models import Door, Lab, Membership
from record.services import Author
from runs.models import Phase, Pipeline, Run
from runs.services.create import create_run

PATIENCE_S = 300.0
NOTHING = "#!/bin/sh\n:\n"
SLOTS = 4


class TooSlow(RuntimeError):
    """What was waited for did not come about."""


@dataclass(frozen=True)
class Bench:
    """The lab, its person (who may do everything), their token and password, and the target."""

    lab: Lab
    person: User
    password: str
    token: str
    target: Target

    @property
    def author(self) -> Author:
        return Author.person(self.person, Door.CLI)

    @property
    def folder(self) -> Path:
        return Path(self.target.roots[0])

    def pipeline(
        self, name: str, *, phases: int, gate_after: int = 0, script: str = NOTHING, lanes: int = 0
    ) -> Pipeline:
        """A pipeline of `phases` phases one after the other, with a gate after phase `gate_after` (0: none)."""
        folder = settings.DATA_DIR / "pipelines" / name
        write_pipeline(folder, phases=phases, gate_after=gate_after, script=script, lanes=lanes)
        return Pipeline.objects.create(lab=self.lab, name=name, folder=str(folder))

    def begin(self, pipeline: Pipeline, name: str, *, species: list[str] | None = None) -> Run:
        """A run of it, begun by the real service."""
        return create_run(
            lab_id=self.lab.pk,
            author=self.author,
            pipeline=pipeline,
            target=self.target,
            name=name,
            work_dir=str(self.folder / name),
            conf={},
            species=species or [],
        )


def prepare() -> Bench:
    """Migrate the database, which must be new or empty, and make what the measurements need."""
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    if Lab.objects.exists():
        raise SystemExit("The database has labs in it: the measurements fill one of their own. Name an empty one.")
    password = secrets.token_urlsafe(12)
    with transaction.atomic():
        lab = Lab.objects.create(name="Measurements", slug="measurements")
        person = User.objects.create_user("measurer", password=password)
        Membership.objects.bulk_create(
            Membership(lab=lab, user=person, role=role) for role in (Role.OPERATOR, Role.REVIEWER)
        )
        work = settings.DATA_DIR / "work"
        work.mkdir(exist_ok=True)
        target = Target.objects.create(
            lab=lab,
            name="this-machine",
            host=this_host(),
            roots=[str(work)],
            job_folder=str(settings.DATA_DIR / "jobs"),
            slots=SLOTS,
        )
        _, token = make_token(user=person, name="measurements")
    return Bench(lab, person, password, token, target)


def write_pipeline(folder: Path, *, phases: int, gate_after: int, script: str, lanes: int) -> None:
    """Phases p1, p2 ... in a chain, each with the same script; with `lanes`, all of them once for each species."""
    scripts = folder / "scripts"
    scripts.mkdir(parents=True)
    (folder / "pipeline.conf").write_text("WORK_DIR=\n")
    (scripts / "step.sh").write_text(script)
    lines = [
        f"  p{number}: {{description: Step {number}, scripts: [step.sh], requires_species: {str(lanes > 0).lower()}}}\n"
        for number in range(1, phases + 1)
    ]
    (scripts / "manifest.yml").write_text("phases:\n" + "".join(lines))
    for lane in range(lanes):
        (folder / f"species_s{lane}.conf").write_text(f"TM_LABEL=s{lane}\n")
    if gate_after:
        gate = f"gates:\n  - {{key: look, protocol: generic, after: p{gate_after}, title: Look at it}}\n"
        (scripts / "conductor.yml").write_text(gate)


def until(holds: Callable[[], bool], *, what: str, every_s: float = 0.05) -> None:
    """Wait for something to hold; TooSlow, with what is about, where it doesn't within minutes."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TooSlow(f"{what}: not within {PATIENCE_S:g} s. {_whats_about()}")
        time.sleep(every_s)


def _whats_about() -> str:
    phases = list(Phase.objects.exclude(reason="").values_list("reason", flat=True)[:3])
    jobs = list(Job.objects.exclude(reason="").values_list("reason", flat=True)[:3])
    return f"At {timezone.now():%H:%M:%S} on {connection.vendor}: {phases} {jobs}"
