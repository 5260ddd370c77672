"""Take up a run from the state file of a lab's own tools (.opus_run_state.json)."""

from typing import Any, TypeVar

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Model, QuerySet

from jobs.models import Target
from record.errors import ConductorError
from record.models import Door
from record.services import Author
from runs.models import Pipeline
from runs.services.take_up import import_run_state

T = TypeVar("T", bound=Model)


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", help="absolute path of the file, on the target")
        parser.add_argument("--pipeline", required=True, help="name of the pipeline")
        parser.add_argument("--target", required=True, help="name of the target")
        parser.add_argument("--user", required=True, help="who takes it up: an operator of the lab")
        parser.add_argument("--lab", help="the lab's short name, where several labs have such names")
        parser.add_argument("--name", default="", help="name of the run; else that of its folder")
        parser.add_argument("--replay", action="store_true", help="start nothing: a replay of what is there")

    def handle(self, *args: Any, **options: Any) -> None:
        lab = {"lab__slug": options["lab"]} if options["lab"] else {}
        pipeline = _the(Pipeline.objects.filter(name=options["pipeline"], **lab), "pipeline", options["pipeline"])
        target = _the(Target.objects.filter(name=options["target"], lab=pipeline.lab), "target", options["target"])
        user = _the(User.objects.filter(username=options["user"], is_active=True), "user", options["user"])
        try:
            run = import_run_state(
                author=Author.person(user, Door.CLI),
                pipeline=pipeline,
                target=target,
                path=options["path"],
                name=options["name"],
                replay=options["replay"],
            )
        except ConductorError as refusal:
            raise CommandError(refusal.message) from refusal
        kind = "replay" if run.replay else "run"
        self.stdout.write(f"The {kind} {run.name} (key {run.pk}) was taken up with {run.phases.count()} phases.")


def _the(rows: QuerySet[T], what: str, name: str) -> T:
    found = list(rows[:2])
    if not found:
        raise CommandError(f"There is no {what} {name}.")
    if len(found) > 1:
        raise CommandError(f"Several labs have a {what} {name}: say which with --lab.")
    return found[0]
