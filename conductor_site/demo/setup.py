"""What the demo stands on: a database, a lab with one reviewer, this machine as target, the bundled pipeline, a run."""

import os
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from jobs.hosts import this_host
from jobs.models import Target
from record.access import Role
from record.models import Door, Lab, Membership
from record.services import Author
from runs.models import Pipeline, Run
from runs.services.create import create_run

REVIEWER = "demo-reviewer"
DEMO = "demo"


@dataclass(frozen=True)
class Demo:
    """The demo's things. `password` is that of the demo reviewer."""

    lab: Lab
    reviewer: User
    password: str
    target: Target
    pipeline: Pipeline


def prepare_site() -> None:
    """Bring the database and the static files up to date. CommandError where the database is a lab's."""
    settings.DATA_DIR.mkdir(parents=True, exist_ok=True)
    refuse_other_labs()
    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)


def refuse_other_labs() -> None:
    """CommandError where the database is a lab's: the demo's people do not belong there, and it stops all jobs."""
    if Lab._meta.db_table not in connection.introspection.table_names():
        return
    if others := ", ".join(Lab.objects.exclude(slug=DEMO).values_list("name", flat=True)):
        raise CommandError(
            f"This database belongs to other labs ({others}); the demo needs one of its own, which `make` gives it. "
            "Without make, set CONDUCTOR_DATA to an empty folder, and neither DATABASE_URL nor CONDUCTOR_SQLITE."
        )


def prepare_demo() -> Demo:
    """Make what is missing of the demo; what is there stays as it is."""
    password = _kept_password(settings.DATA_DIR / "demo_password")
    with transaction.atomic():
        lab, _ = Lab.objects.get_or_create(slug=DEMO, defaults={"name": "Demo lab"})
        reviewer = _reviewer(lab, password)
        return Demo(lab, reviewer, password, _target(lab), _pipeline(lab))


def start_demo_run(demo: Demo, *, name: str, preset: str = "", conf: dict[str, str] | None = None) -> Run:
    """The run of that name, started where there is none yet."""
    run = Run.objects.filter(lab=demo.lab, name=name).first()
    if run:
        return run
    return create_run(
        lab_id=demo.lab.pk,
        author=Author.person(demo.reviewer, Door.CLI),
        pipeline=demo.pipeline,
        target=demo.target,
        name=name,
        work_dir=str(Path(demo.target.roots[0]) / name),
        conf=conf or {},
        species=[] if conf else ["alpha", "beta"],
        preset=preset,
    )


def _kept_password(path: Path) -> str:
    """The demo reviewer's password: made once, kept in a file that only its owner can read."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(12))
    return path.read_text()


def _reviewer(lab: Lab, password: str) -> User:
    reviewer, _ = User.objects.get_or_create(
        username=REVIEWER, defaults={"first_name": "Demo", "last_name": "reviewer"}
    )
    if not reviewer.check_password(password):
        reviewer.set_password(password)
        reviewer.save()
    for role in (Role.REVIEWER, Role.OPERATOR):
        Membership.objects.get_or_create(lab=lab, user=reviewer, role=role)
    return reviewer


def _target(lab: Lab) -> Target:
    work = settings.DATA_DIR / "work"
    work.mkdir(exist_ok=True)
    target, _ = Target.objects.get_or_create(
        lab=lab,
        name="this-machine",
        defaults={
            "host": this_host(),
            "roots": [str(work)],
            "job_folder": str(settings.DATA_DIR / "jobs"),
            "slots": 2,
            "environment_lines": f'export PATH="{Path(sys.executable).parent}:$PATH"',
        },
    )
    return target


def _pipeline(lab: Lab) -> Pipeline:
    folder = settings.BASE_DIR / "pipelines" / "demo_tomo"
    pipeline, _ = Pipeline.objects.get_or_create(lab=lab, name="Demo tomography", defaults={"folder": str(folder)})
    return pipeline
