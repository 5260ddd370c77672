"""Looks at a run's target and keeps what was found with the run; what is missing is asked at its setup gate.

Where the pipeline names tools or environments, the first look is planned with the run, made by a task, and waited for
by the setup gate. The planned row is the queue.
"""

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from jobs.deadline import longer, within
from jobs.nudges import nudge
from record.access import Ability, require
from record.errors import ConductorError
from record.logkeys import about
from record.services import Author, record_event
from runs.models import Preflight, Run
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.preflight.findings import BLOCKS, MISSING, UNKNOWN, Finding, read_findings
from runs.preflight.look import look_at_target
from runs.preflight.tools import wanted_environments, wanted_tools
from runs.services.board import lock_run, refuse_archived
from runs.services.engine import advance

ALTOGETHER_S = 75  # where somebody waits at a page
BY_ITSELF_S = 150  # in a task, which has 180 s
AGAIN_S = 240  # a look of which nothing came is begun again
BY = "pipeline"  # the name under which a run has its target looked at by itself
TASK = "runs.tasks.look_first"


def plan_look(run: Run) -> None:
    """Have the run's target looked at first, where its pipeline names what is needed there; a replay needs nothing.

    In the transaction in which the run begins.
    """
    if not run.replay and _wants_look(spec_of(run.snapshot)):
        Preflight.objects.create(run=run, at=None, due_at=timezone.now())


def _wants_look(spec: PipelineSpec) -> bool:
    return bool(wanted_tools(spec) or wanted_environments(spec))


def nudge_looks() -> int:
    """Have the task cluster make the looks that are due; how many were begun. One query where none is."""
    now = timezone.now()
    due = list(Preflight.objects.due(now).values_list("pk", "run_id"))
    return sum(_nudge(pk, run_id) for pk, run_id in due)


def _nudge(pk: int, run_id: int) -> int:
    now = timezone.now()
    with transaction.atomic():
        later = now + timedelta(seconds=AGAIN_S)
        if Preflight.objects.planned().filter(pk=pk, due_at__lte=now).update(due_at=later) != 1:
            return 0
        nudge(TASK, run_id)
    return 1


def look_first(run_id: int) -> bool:
    """Make the look that a run waits for; whether it was made. What can't be looked at is found to be unknown."""
    run = Run.objects.select_related("target", "snapshot").filter(pk=run_id).first()
    if run is None or run.archived_at is not None or not Preflight.objects.planned().filter(run=run).exists():
        return False
    with about(run=run.uuid, target=run.target.name), within(BY_ITSELF_S):
        try:
            findings = look_at_target(run)
        except ConductorError as error:
            findings = [Finding("target", run.target.name, UNKNOWN, error.message, "Look again.")]
    _keep(run, findings, Author.policy(BY))
    return True


def probe_run(*, run: Run, author: Author) -> Preflight:
    """Look at the run's target now, and keep the findings and the tools' versions; earlier looks are kept, too."""
    if author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)
    refuse_archived(run)
    with longer(ALTOGETHER_S):
        findings = look_at_target(run)
    return _keep(run, findings, author)


@transaction.atomic
def _keep(run: Run, findings: list[Finding], author: Author) -> Preflight:
    """Keep what was found, as the look that was planned where there is one; what waited for it goes on."""
    run = lock_run(run.pk)
    made = Preflight.objects.planned().filter(run=run).first() or Preflight(run=run)
    made.at, made.due_at, made.by_name = timezone.now(), None, author.name
    made.findings = [each.to_json() for each in findings]
    made.save()
    record_event(
        lab_id=run.lab_id,
        kind="run.probe",
        subject=run.subject(),
        message=f"{run.name}: {describe(findings)}, looked at by {author.name}",
        data={"versions": versions_of(findings)},
    )
    advance(run)
    return made


def last_look(run: Run) -> Preflight | None:
    """The last look that was made; None where nobody has looked yet."""
    last: Preflight | None = Preflight.objects.made().filter(run=run).first()
    return last


def last_findings(run: Run) -> list[Finding]:
    """What the last look found; empty where nobody has looked yet."""
    last = last_look(run)
    return read_findings(last.findings) if last else []


def has_environment(run: Run) -> bool:
    """Whether a look has been made, and the last one left nothing in the way and nothing unknown."""
    last = last_look(run)
    against = (BLOCKS, UNKNOWN)
    return last is not None and all(each.status not in against for each in read_findings(last.findings))


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
