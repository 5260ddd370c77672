"""Looks at a run's target and keeps what was found with the run; what is missing is asked at its setup gate."""

from django.db import transaction

from jobs.deadline import longer
from record.access import Ability, require
from record.services import Author, record_event
from runs.models import Preflight, Run
from runs.preflight.findings import BLOCKS, MISSING, Finding, read_findings
from runs.preflight.look import look_at_target
from runs.services.board import refuse_archived

ALTOGETHER_S = 75  # where somebody waits at a page


def probe_run(*, run: Run, author: Author) -> Preflight:
    """Look at the run's target now, and keep the findings and the tools' versions; earlier looks are kept, too."""
    if author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)
    refuse_archived(run)
    with longer(ALTOGETHER_S):
        findings = look_at_target(run)
    with transaction.atomic():
        made = Preflight.objects.create(run=run, findings=[each.to_json() for each in findings], by_name=author.name)
        record_event(
            lab_id=run.lab_id,
            kind="run.probe",
            subject=run.subject(),
            message=f"{run.name}: {describe(findings)}, looked at by {author.name}",
            data={"versions": versions_of(findings)},
        )
    return made


def last_findings(run: Run) -> list[Finding]:
    """What the last look found; empty where nobody has looked yet."""
    last = run.preflights.order_by("-id").first()
    return read_findings(last.findings) if last else []


def describe(findings: list[Finding]) -> str:
    """The outcome in a few words."""
    blocking = sum(each.status == BLOCKS for each in findings)
    missing = sum(each.status == MISSING for each in findings)
    if not blocking and not missing:
        return f"the target has all that was looked for ({len(findings)})"
    return f"of {len(findings)} things on the target {blocking} stand in the way and {missing} are missing"


def versions_of(findings: list[Finding]) -> dict[str, str]:
    """tool -> the version that it told."""
    return {each.key: each.version for each in findings if each.version}
