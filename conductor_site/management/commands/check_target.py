"""Say in words what is wrong with a target."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.check import Finding, check_target
from jobs.models import Target


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the target's name")
        parser.add_argument("--lab", help="the lab's short name, where several labs have a target of that name")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = check_target(_target(options["name"], options["lab"]))
        for finding in findings:
            self.stdout.write(_line(finding))
        if bad := sum(not finding.ok for finding in findings):
            raise CommandError(f"{bad} of {len(findings)} checks failed.")


def _target(name: str, lab: str | None) -> Target:
    found = Target.objects.filter(name=name, **({"lab__slug": lab} if lab else {})).select_related("lab")
    if not found:
        names = ", ".join(Target.objects.values_list("name", flat=True)) or "none yet"
        raise CommandError(f"There is no target {name}. There are: {names}.")
    if len(found) > 1:
        labs = ", ".join(target.lab.slug for target in found)
        raise CommandError(f"Several labs have a target {name} ({labs}): say which with --lab.")
    return found[0]


def _line(finding: Finding) -> str:
    return f"{'ok  ' if finding.ok else 'BAD '} {finding.message}"
