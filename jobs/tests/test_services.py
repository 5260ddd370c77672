"""Planning, cancelling, holding back, and what follows the end of a job."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs import custody, final, sweep
from jobs.custody import claim_due, finish_job, record_running, take_over
from jobs.endings import Ending
from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.occupancy import with_occupancy
from jobs.services import Resources, handle_final, hold_planned, release_held, request_cancel, resources_for
from jobs.states import FINAL, JOB, JobState
from record.errors import BadInput, NotAllowed, StaleState
from record.models import Door, Event
from record.services import Author
from record.tests.factories import People

pytestmark = pytest.mark.django_db

Plan = Callable[..., Job]
SOMEBODY = Author.policy("tests")


class Follower:
    """Counts what it is asked to do; `apply` fails as often as `failures` says."""

    def __init__(self) -> None:
        self.gathered: list[str] = []
        self.applied: list[Any] = []
        self.failures = 0

    def gather(self, job: Job) -> str:
        self.gathered.append(job.state)
        return f"{job.state} {job.exit_code}"

    def lock(self, job: Job) -> None:
        pass

    def apply(self, job: Job, gathered: Any) -> None:
        Event.objects.create(lab_id=job.lab_id, kind="job.plan", subject_kind="t", subject_uuid=job.uuid, message="app")
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.applied.append(gathered)


follower = Follower()


@pytest.fixture(autouse=True)
def _fresh_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    follower.__init__()  # type: ignore[misc]
    monkeypatch.setitem(final._PLACES, "test.follow", f"{__name__}:follower")
    monkeypatch.setattr(final, "import_string", lambda place: follower)
    monkeypatch.setattr(sweep, "_patience", sweep.Patience())


def running(plan: Plan, **given: Any) -> Job:
    plan(**given)
    (job,) = claim_due(targets=list(Target.objects.all()), holder="boot:1:1")
    record_running(job, "boot:2:2")
    return job


def kinds(job: Job) -> list[str]:
    return list(Event.objects.filter(subject_uuid=job.uuid).order_by("id").values_list("kind", flat=True))


def test_a_planned_job_names_its_logs_after_itself(plan: Plan, tmp_path: Any) -> None:
    job = plan(script="#!/bin/bash\n#SBATCH -J ali --output=logs/%x-%j.out\ntrue\n")
    assert job.stdout_path == job.stderr_path == f"{tmp_path}/logs/ali-{job.token}.out"
    plain = plan()
    assert plain.stdout_path == f"{tmp_path}/logs/3.5_align_{plain.token}.out"
    assert plain.stderr_path == f"{tmp_path}/logs/3.5_align_{plain.token}.err"
    assert kinds(job) == ["job.plan"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"work_dir": "/etc"}, "lies outside"),
        ({"script": "#SBATCH --output=/etc/x_%j\n"}, "lies outside"),
        ({"environment": {"A B": "x"}}, "can't be the name"),
        ({"environment": {"A": "x\0"}}, "without NUL"),
        ({"script": "echo \ud800"}, "can't be written as UTF-8, at 5"),
        ({"script": "echo \0"}, "NUL"),
        ({"resources": Resources(10**9, 1)}, "gives at most"),
        ({"resources": Resources(1, 10**9)}, "MiB"),
        ({"resources": Resources(0, 1)}, "at least 1"),
    ],
)
def test_impossible_jobs_are_refused(plan: Plan, given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        plan(**given)
    assert not Job.objects.exists()


def test_script_names_are_made_harmless(plan: Plan) -> None:
    assert plan(script_name="../a b;c.slurm").script_name == "a_b_c.slurm"
    assert plan(script_name="..").script_name == "script.sh"


def test_resources_from_script_target_and_limits(target: Target) -> None:
    script = "#SBATCH --time=0:30 --mem=2G -c 3\n"
    assert resources_for(target, script) == Resources(30, 2048, 3)
    assert resources_for(target, script, time_limit_s=99) == Resources(99, 2048, 3)
    assert resources_for(target, "") == Resources(86_400, 8192, 1)
    with pytest.raises(BadInput, match="262144 MiB are asked for; target here gives at most 8192 MiB"):
        resources_for(target, "#SBATCH --mem=256G\n")


def test_claims_keep_to_slots_pauses_and_holds(plan: Plan, target: Target) -> None:
    first, second, third = plan(), plan(), plan()
    hold_planned(root_uuid=second.root_uuid)
    target.slots = 1
    target.save()
    assert claim_due(targets=[target], holder="me") == [first]
    assert claim_due(targets=[target], holder="me") == []
    Target.objects.update(slots=9, paused=True)
    assert claim_due(targets=list(Target.objects.all()), holder="me") == []
    Target.objects.update(paused=False)
    stale = list(Target.objects.all())
    Target.objects.update(paused=True)
    assert claim_due(targets=stale, holder="me") == []
    Target.objects.update(paused=False)
    assert claim_due(targets=stale, holder="me") == [third]
    assert release_held(root_uuid=second.root_uuid) == 1
    assert claim_due(targets=stale, holder="me") == [second]


def test_a_job_that_is_held_back_while_it_is_claimed_stops_no_other(
    plan: Plan, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = plan(), plan()
    claim = custody._claim

    def held_just_now(job: Job, holder: str) -> None:
        Job.objects.filter(pk=first.pk).update(held=True)
        claim(job, holder)

    monkeypatch.setattr(custody, "_claim", held_just_now)
    assert [job.pk for job in claim_due(targets=[target], holder="boot:1:1")] == [second.pk]
    first.refresh_from_db()
    assert (first.state, first.generation) == ("planned", 0)


def test_an_older_generation_changes_nothing(plan: Plan) -> None:
    plan()
    (stalled,) = claim_due(targets=list(Target.objects.all()), holder="first")
    fresh = Job.objects.get()
    take_over(fresh, holder="second")
    with pytest.raises(StaleState):
        record_running(stalled, "boot:9:9")
    record_running(fresh, "boot:8:8")
    assert Job.objects.get().native_id == "boot:8:8"


def test_cancelling_a_planned_job_is_done_at_once(plan: Plan) -> None:
    job = plan()
    request_cancel(job=job, author=SOMEBODY, reason="wrong species")
    job = Job.objects.get()
    assert (job.state, job.final_handled) == ("cancelled", False)
    assert "Cancelled by tests: wrong species" in job.reason
    assert sweep.handle_unhandled() == 1
    request_cancel(job=job, author=SOMEBODY)
    assert kinds(job) == ["job.plan", "job.cancel"]


def test_the_service_itself_asks_whether_somebody_may_cancel(plan: Plan, people: People) -> None:
    job = plan()
    for person in (people.viewer, people.reviewer, people.outsider):
        with pytest.raises(NotAllowed, match="you need the role operator or administrator"):
            request_cancel(job=job, author=Author.person(person, Door.CLI))
    assert (Job.objects.get().state, kinds(job)) == ("planned", ["job.plan"])
    request_cancel(job=job, author=Author.person(people.operator, Door.CLI))
    assert (Job.objects.get().state, kinds(job)) == ("cancelled", ["job.plan", "job.cancel"])


def test_the_ends_of_another_hosts_jobs_are_left_to_it(plan: Plan) -> None:
    job = running(plan, on_final="test.follow")
    Job.objects.filter(pk=job.pk).update(state="succeeded", ended_at=timezone.now())
    Target.objects.update(host="another")
    assert (sweep.handle_unhandled(), follower.gathered) == (0, [])
    Target.objects.update(host=this_host())
    assert (sweep.handle_unhandled(), follower.gathered) == (1, ["succeeded"])


def test_cancelling_a_running_job_only_asks(plan: Plan) -> None:
    job = running(plan)
    request_cancel(job=job, author=SOMEBODY)
    request_cancel(job=job, author=SOMEBODY)
    job.refresh_from_db()
    assert job.state == "running"
    assert job.reason.startswith("Being cancelled.")
    assert kinds(job)[-2:] == ["job.start", "job.request_cancel"]


def test_end_and_effects_share_a_transaction(plan: Plan) -> None:
    job = running(plan, on_final="test.follow")
    assert finish_job(job, Ending("fail", "Exit code 3.", 3)) is True
    job.refresh_from_db()
    assert (job.state, job.final_handled, job.exit_code) == ("failed", True, 3)
    assert follower.applied == ["failed 3"]
    assert finish_job(Job(pk=job.pk, lab_id=job.lab_id, state="running", generation=1), Ending("succeed", "")) is False
    assert handle_final(job) is False
    assert sweep.handle_unhandled() == 0
    assert follower.applied == ["failed 3"]


def test_failing_effects_keep_the_end_and_are_tried_again(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    follower.failures = 2
    job = running(plan, on_final="test.follow")
    finish_job(job, Ending("succeed", "", 0))
    job.refresh_from_db()
    assert (job.state, job.final_handled) == ("succeeded", False)
    assert not Event.objects.filter(message="app").exists()

    assert sweep.handle_unhandled() == 0
    assert sweep.handle_unhandled() == 0  # not at full speed
    assert len(follower.gathered) == 2
    monkeypatch.setattr(sweep, "_patience", sweep.Patience())
    assert sweep.handle_unhandled() == 1
    assert follower.applied == ["succeeded 0"]
    assert Event.objects.filter(message="app").count() == 1


def test_an_unknown_key_is_left_and_shown(plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    job = running(plan, on_final="nobody.knows")
    finish_job(job, Ending("succeed", "", 0))
    assert sweep.handle_unhandled() == 0
    assert Job.objects.unhandled().get() == job
    assert "nobody is registered for 'nobody.knows'" in caplog.text


def test_every_state_with_every_event() -> None:
    for state in JobState.values:
        for event in JOB.events():
            assert not (state in FINAL and JOB.allows(state, event))
    assert all(JOB.allows(state, "cancel") for state in set(JobState.values) - FINAL)


def test_the_database_refuses_an_end_without_a_time(plan: Plan) -> None:
    job = plan()
    with pytest.raises(IntegrityError):
        Job.objects.filter(pk=job.pk).update(state="failed")


SERIES = {
    "sqlite": ("with recursive n(i) as (select 1 union all select i + 1 from n where i < {})", "randomblob(16)"),
    "postgresql": ("with n(i) as (select generate_series(1, {}))", "uuid_send(gen_random_uuid())"),
}
AS_UUID = {"sqlite": "lower(hex({}))", "postgresql": "encode({}, 'hex')::uuid"}


def add_ended_jobs(template: Job, count: int) -> None:
    """That many copies of a job, ended and dealt with; the planner is told of them."""
    others = [field.column for field in Job._meta.concrete_fields if field.column not in ("id", "uuid", "token")]
    numbers, noise = SERIES[connection.vendor]
    ended = {"state": "'succeeded'", "ended_at": "planned_at", "final_handled": "true"}
    values = [ended.get(column, column) for column in others]
    with connection.cursor() as cursor:
        cursor.execute(
            f"{numbers.format(count)} insert into jobs_job (uuid, token, {', '.join(others)}) "  # noqa: S608
            f"select {AS_UUID[connection.vendor].format(noise)}, 'j' || i, {', '.join(values)} "
            "from n, jobs_job where id = %s",
            [template.pk],
        )
        cursor.execute("analyze jobs_job")


def test_sweeps_use_the_partial_indexes(plan: Plan, target: Target) -> None:
    """Beside many ended jobs; in an almost empty table PostgreSQL rightly takes whatever is nearest."""
    add_ended_jobs(plan(), 5000)
    plans = {
        "job_live": [
            Job.objects.planned().filter(target__in=[target.pk]),
            Job.objects.away().filter(target=target),
            Job.objects.away().filter(target__in=[target.pk]).order_by("id"),
            with_occupancy(Target.objects.all()),
        ],
        "job_unhandled": [Job.objects.unhandled().within_reach("here").order_by("id")],
    }
    for index, queries in plans.items():
        for query in queries:
            assert index in query.explain()


def test_a_sweep_beside_ended_jobs_asks_no_more(plan: Plan, target: Target) -> None:
    """How long it takes is measured elsewhere; here, that what a tick asks of jobs does not grow with them."""
    template = plan()
    Target.objects.update(paused=True)
    targets = list(Target.objects.all())

    def tick() -> int:
        with CaptureQueriesContext(connection) as asked:
            claim_due(targets=targets, holder="me")
            sweep.handle_unhandled()
            list(Job.objects.away().filter(target__in=[target.pk]))
            Job.objects.planned().filter(target__in=[target.pk]).exists()
        return len(asked)

    alone = tick()
    add_ended_jobs(template, 1000)
    assert tick() == alone
