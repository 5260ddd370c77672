"""Turns at a cluster whose commands say what a real one can hardly be made to say: one job's trouble stays its own."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs import clusters
from jobs.clusters import drive_cluster, nudge_clusters
from jobs.drain import begin_drain, being_submitted, end_drain
from jobs.executors.slurm.client import Slurm
from jobs.following import folder_of, name_of
from jobs.hosts import this_host
from jobs.models import Cluster, ClusterWatch, Job, Target
from jobs.services import hold_planned, release_held, request_cancel
from jobs.shells import Completed, LocalShell
from record.models import Lab
from record.services import Author

pytestmark = pytest.mark.django_db
SOMEBODY = Author.policy("tests")
COMMAND = """#!/bin/bash
cd {folder}
echo "${{0##*/}} $*" >> calls
[ ! -e "${{0##*/}}.does" ] || . "./${{0##*/}}.does"
"""


class Pretended:
    """SLURM's commands, each of which notes that it was called, and does what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("sbatch", "squeue", "sacct", "scancel", "scontrol"):
            (folder / name).write_text(COMMAND.format(folder=folder))
            (folder / name).chmod(0o755)
        self.does("sbatch", 'id=$(($(cat ids 2>/dev/null || echo 100) + 1)); echo "$id" > ids; echo "$id"')

    def does(self, command: str, text: str) -> None:
        (self.folder / f"{command}.does").write_text(text)

    def queue(self, *rows: tuple[Job, str]) -> None:
        """What `squeue` says: (job, its state)."""
        at = f"{timezone.now():%Y-%m-%dT%H:%M:%S}"
        lines = [
            f"{job.native_id}|{job.native_id}|N/A|{state}|None|{at}|{at}|N/A|{name_of(job)}" for job, state in rows
        ]
        (self.folder / "queue").write_text("\n".join([*lines, ""]))
        self.does("squeue", "cat queue")

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def slurm(tmp_path: Path) -> Pretended:
    return Pretended(tmp_path / "commands")


@pytest.fixture
def target(lab: Lab, tmp_path: Path, slurm: Pretended) -> Target:
    target = Target.objects.create(
        lab=lab, name="cluster", kind="slurm", host=this_host(), roots=[str(tmp_path)],
        job_folder=str(tmp_path / "jobs"), slots=10,
    )  # fmt: skip
    Cluster.objects.create(
        target=target, commands_folder=str(slurm.folder), agree_s=0, poll_floor_s=1000, poll_ceiling_s=9000
    )
    return target


@pytest.fixture
def away(plan: Callable[..., Job], target: Target) -> Callable[..., Job]:
    """A job that runs there; what is given replaces what its row says."""

    def _away(native_id: str, **given: Any) -> Job:
        job = plan()
        now = timezone.now()
        wanted = {"state": "running", "native_id": native_id, "generation": 1, "submitted_at": now, "started_at": now}
        Job.objects.filter(pk=job.pk).update(**(wanted | given))
        job.refresh_from_db()
        folder = Path(folder_of(job))
        folder.mkdir(parents=True)
        (folder / "owner").write_text(f"{native_id}.1\n")
        return job

    return _away


def turn(target: Target) -> ClusterWatch:
    """One turn in which the cluster is asked; how it went."""
    ClusterWatch.objects.filter(pk=target.pk).update(poll_due_at=None, closed_until=None)
    drive_cluster(target.pk)
    return ClusterWatch.objects.get(pk=target.pk)


def _shorten(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Have one command be waited for for a second only."""
    run = LocalShell.run

    def _run(self: LocalShell, argv: list[str], *, timeout_s: float, **given: Any) -> Completed:
        return run(self, argv, timeout_s=1 if argv[0].endswith(f"/{command}") else timeout_s, **given)

    monkeypatch.setattr(LocalShell, "run", _run)


def long_missing(job: Job) -> None:
    since = timezone.now() - timedelta(hours=1)
    Job.objects.filter(pk=job.pk).update(native_raw={"missing_since": since.isoformat()})


def test_a_lost_job_does_not_hide_a_newer_one_of_the_same_id(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    lost, newer = away("7", state="lost"), away("7", state="queued", started_at=None)
    slurm.queue((newer, "RUNNING"))
    turn(target)
    newer.refresh_from_db()
    lost.refresh_from_db()
    assert (newer.state, lost.state) == ("running", "lost")


def test_a_job_whose_notes_were_taken_away_is_not_run_again(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    """It may have run: nothing there says that it has not."""
    job = away("7", state="unknown")
    shutil.rmtree(folder_of(job))
    long_missing(job)
    turn(target)
    turn(target)
    job.refresh_from_db()
    assert (job.state, slurm.calls().count("sbatch")) == ("lost", 0)
    assert "its token folder has been taken away" in job.reason


def test_a_job_that_ran_out_of_time_is_not_run_again_though_its_notes_were_taken_away(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    job = away("7")
    shutil.rmtree(folder_of(job))
    slurm.queue((job, "TIMEOUT"))
    turn(target)
    job.refresh_from_db()
    assert (job.state, slurm.calls().count("sbatch")) == ("timed_out", 0)


def test_a_job_whose_notes_were_taken_away_is_not_called_cancelled(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    job = away("7", state="unknown")
    request_cancel(job=job, author=SOMEBODY)
    shutil.rmtree(folder_of(job))
    long_missing(job)
    turn(target)
    job.refresh_from_db()
    assert job.state == "lost"


def test_the_submission_that_won_is_followed_though_it_is_the_older(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    later = timezone.now() + timedelta(minutes=3)
    job = away("8", native_raw={"submit_time": later.isoformat()})
    (Path(folder_of(job)) / "owner").write_text("7.1\n")
    turn(target)
    job.refresh_from_db()
    assert job.native_id == "7"
    slurm.queue((job, "TIMEOUT"))
    turn(target)
    job.refresh_from_db()
    assert job.state == "timed_out"


def test_being_seen_in_an_odd_state_ends_the_time_of_not_being_seen(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    job = away("7", state="unknown")
    long_missing(job)
    slurm.queue((job, "REVOKED"))
    turn(target)
    slurm.queue()
    turn(target)
    job.refresh_from_db()
    assert job.state == "unknown"


def test_an_old_job_folder_that_is_gone_holds_up_its_own_jobs_only(
    away: Callable[..., Job], plan: Callable[..., Job], target: Target, tmp_path: Path, slurm: Pretended
) -> None:
    before = away("7", state="unknown", job_folder=f"{tmp_path}/before")
    between = plan()
    Job.objects.filter(pk=between.pk).update(
        state="submitting", generation=1, lease_until="2020-01-01T00:00:00Z", job_folder=f"{tmp_path}/before"
    )
    shutil.rmtree(tmp_path / "before")
    ended, planned = away("8"), plan()
    (Path(folder_of(ended)) / "exit.8.0").write_text("0 1764500000\n")

    watch = turn(target)

    states = {job.pk: job.state for job in Job.objects.all()}
    assert [states[job.pk] for job in (before, between, ended)] == ["unknown", "submitting", "succeeded"]
    assert states[planned.pk] == "queued"
    assert (watch.failures, watch.problem) == (0, "")
    for job in (before, between):
        job.refresh_from_db()
        assert f"{tmp_path}/before, the target's job folder when it was planned, can't be reached" in job.reason


def test_a_job_folder_that_can_not_be_reached_changes_nothing(away: Callable[..., Job], target: Target) -> None:
    job = away("8")
    shutil.rmtree(target.job_folder)
    watch = turn(target)
    job.refresh_from_db()
    assert (job.state, watch.failures) == ("running", 1)
    assert watch.problem == f"The job folder {target.job_folder} can't be reached."


def test_a_work_folder_that_is_gone_fails_its_own_job_only(
    plan: Callable[..., Job], target: Target, tmp_path: Path
) -> None:
    script = f"#!/bin/bash\n#SBATCH -o {tmp_path}/%j.out\ntrue\n"
    well, astray = plan(), plan(work_dir=f"{tmp_path}/gone", script=script)
    watch = turn(target)
    well.refresh_from_db()
    astray.refresh_from_db()
    assert (well.state, astray.state, watch.failures) == ("queued", "failed", 0)
    assert astray.reason == (
        f"The job could not be started. The work folder {tmp_path}/gone can't be entered: No such file or directory."
    )


def test_what_scancel_complains_of_stops_no_other_job(
    away: Callable[..., Job], plan: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    job, planned = away("7"), plan()
    slurm.queue((job, "RUNNING"))
    slurm.does("scancel", 'echo "scancel: error: Kill job error on job id 7: Some new words" >&2; exit 1')
    request_cancel(job=job, author=SOMEBODY)
    watch = turn(target)
    job.refresh_from_db()
    planned.refresh_from_db()
    assert (job.state, planned.state, watch.failures) == ("running", "queued", 0)
    assert job.reason == "Not cancelled: scancel: Kill job error on job id 7: Some new words."


def test_who_cancelled_a_job_is_told_whatever_was_said_of_it_since(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    job = away("7")
    slurm.queue((job, "RUNNING"))
    slurm.does("scancel", 'echo "scancel: error: Kill job error on job id 7: Some new words" >&2; exit 1')
    request_cancel(job=job, author=SOMEBODY, reason="wrong species")
    turn(target)
    slurm.queue((job, "CANCELLED"))
    turn(target)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("cancelled", "Cancelled by tests: wrong species")


@pytest.mark.parametrize("words", ["Invalid job id specified", "Job/step already completing or completed"])
def test_what_is_ending_is_not_called_uncancellable(
    away: Callable[..., Job], target: Target, slurm: Pretended, words: str
) -> None:
    job = away("7")
    slurm.queue((job, "COMPLETING"))
    slurm.does("scancel", f'echo "scancel: error: Kill job error on job id 7: {words}" >&2; exit 1')
    request_cancel(job=job, author=SOMEBODY)
    turn(target)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("running", "Not cancelled yet: it is still there. Cancelled by tests")


def test_a_submission_that_can_not_be_cancelled_ends_by_itself(
    plan: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    """Its job was closed before: it will find that, and not run the script."""
    job = plan()
    Job.objects.filter(pk=job.pk).update(state="submitting", generation=1, lease_until="2020-01-01T00:00:00Z")
    (Path(folder_of(job)) / "submit.1").mkdir(parents=True)
    job.native_id = "9"
    slurm.queue((job, "PENDING"))
    slurm.does("scancel", 'echo "scancel: error: Kill job error on job id 9: Some new words" >&2; exit 1')
    request_cancel(job=job, author=SOMEBODY)
    watch = turn(target)
    job.refresh_from_db()
    assert (job.state, watch.failures) == ("cancelled", 0)


@pytest.mark.parametrize("trouble", ["missing", "hangs"])
def test_accounts_that_can_not_be_asked_close_nothing(
    away: Callable[..., Job],
    plan: Callable[..., Job],
    target: Target,
    slurm: Pretended,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, planned = away("7"), plan()
    (Path(folder_of(ended)) / "exit.7.0").write_text("0 1764500000\n")
    if trouble == "missing":
        (slurm.folder / "sacct").unlink()
    else:
        slurm.does("sacct", "exec sleep 600")
        _shorten(monkeypatch, "sacct")
    watch = turn(target)
    ended.refresh_from_db()
    planned.refresh_from_db()
    assert (ended.state, planned.state, watch.failures) == ("succeeded", "queued", 0)
    assert watch.has_accounts is False


def test_a_slow_cluster_is_asked_though_many_are_to_be_cancelled(
    away: Callable[..., Job], target: Target, slurm: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else no turn would ever hear of what has ended."""
    monkeypatch.setattr(clusters, "EACH_S", 0.0)
    jobs = [away(str(number)) for number in range(7, 10)]
    for job in jobs:
        request_cancel(job=job, author=SOMEBODY)
    slurm.queue(*[(job, "CANCELLED") for job in jobs])
    turn(target)
    assert slurm.calls().count("scancel") == 1
    assert {job.state for job in Job.objects.all()} == {"cancelled"}


def test_what_is_still_ending_is_asked_after_at_the_usual_times(
    away: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    job = away("7")
    slurm.queue((job, "RUNNING"))
    turn(target)
    request_cancel(job=job, author=SOMEBODY)
    slurm.queue((job, "COMPLETING"))
    assert nudge_clusters() == 1
    drive_cluster(target.pk)
    assert slurm.calls().count("scancel") == 1
    assert nudge_clusters() == 0
    drive_cluster(target.pk)
    assert slurm.calls().count("scancel") == 1


def test_a_cancel_that_is_asked_for_during_a_turn_waits_for_no_poll(
    away: Callable[..., Job], target: Target, slurm: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = away("7")
    slurm.queue((job, "RUNNING"))
    poll = Slurm.poll

    def _poll(self: Slurm, *words: Any, **given: Any) -> Any:
        answer = poll(self, *words, **given)
        request_cancel(job=job, author=SOMEBODY)
        return answer

    monkeypatch.setattr(Slurm, "poll", _poll)
    watch = turn(target)
    assert watch.poll_due_at is not None
    assert watch.poll_due_at > timezone.now()
    assert nudge_clusters() == 1


def test_after_a_submission_the_cluster_is_left_alone_for_the_shortest_time(
    away: Callable[..., Job], plan: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    ClusterWatch.objects.create(target=target, poll_due_at=timezone.now() + timedelta(seconds=9000))
    plan()
    before = timezone.now()
    drive_cluster(target.pk)
    watch = ClusterWatch.objects.get()
    assert watch.poll_due_at is not None
    assert timedelta(seconds=1000) <= watch.poll_due_at - before < timedelta(seconds=2000)
    assert slurm.calls() == ["sbatch"]


def test_a_turn_with_nothing_to_submit_touches_no_folder(
    away: Callable[..., Job], target: Target, slurm: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = away("7")
    slurm.queue((job, "RUNNING"))
    monkeypatch.setattr(LocalShell, "make_folder", lambda self, path: pytest.fail("a call for nothing"))
    assert turn(target).failures == 0


def test_a_target_whose_cluster_is_not_described_is_left_alone_for_a_while(
    away: Callable[..., Job], target: Target
) -> None:
    away("7")
    Cluster.objects.all().delete()
    watch = turn(target)
    assert watch.problem.startswith("Target cluster is a cluster, but how to reach it is not set")
    assert (watch.failures, watch.driver, nudge_clusters()) == (1, "", 0)


def test_what_fails_in_conductor_itself_is_told_and_not_repeated_at_once(
    away: Callable[..., Job], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    away("7")
    monkeypatch.setattr(Slurm, "poll", lambda *words, **given: int("x"))
    watch = turn(target)
    assert watch.problem == "Conductor itself failed there (ValueError); its log says more."
    assert (watch.failures, watch.driver, nudge_clusters()) == (1, "", 0)


@pytest.mark.parametrize("how", ["run", "target", "installation"])
def test_what_a_busy_cluster_did_not_take_is_not_tried_again_while_nothing_may_start(
    plan: Callable[..., Job], target: Target, slurm: Pretended, how: str
) -> None:
    takes = (slurm.folder / "sbatch.does").read_text()
    slurm.does("sbatch", 'echo "sbatch: error: Slurm job submission: Rate limit exceeded" >&2; exit 1')
    job = plan()
    turn(target)
    assert Job.objects.get().state == "submitting"
    assert being_submitted() == 0
    slurm.does("sbatch", takes)
    stop_starting(how, job)

    for _ in range(3):
        time_passes()
        turn(target)
    job.refresh_from_db()
    assert (job.state, job.generation, slurm.calls().count("sbatch")) == ("submitting", 2, 1)
    assert job.reason.startswith("It is kept back: ")
    assert being_submitted() == 0

    start_again(how, job)
    time_passes()
    turn(target)
    job.refresh_from_db()
    assert (job.state, job.reason, slurm.calls().count("sbatch")) == ("queued", "", 2)
    assert "kept_back" not in job.native_raw


def test_what_is_kept_back_can_be_cancelled(plan: Callable[..., Job], target: Target, slurm: Pretended) -> None:
    slurm.does("sbatch", 'echo "sbatch: error: Slurm job submission: Rate limit exceeded" >&2; exit 1')
    job = plan()
    turn(target)
    stop_starting("run", job)
    time_passes()
    turn(target)
    request_cancel(job=job, author=SOMEBODY)
    turn(target)
    job.refresh_from_db()
    assert job.state == "cancelled"


def test_a_submission_of_unknown_outcome_is_looked_for_while_nothing_may_start(
    plan: Callable[..., Job], target: Target, slurm: Pretended
) -> None:
    """It may be in the queue: a pause is no reason not to follow it."""
    slurm.does("sbatch", 'echo "sbatch: error: Batch job submission failed: Socket timed out" >&2; exit 1')
    job = plan()
    turn(target)
    stop_starting("run", job)
    job.native_id = "9"
    slurm.queue((job, "RUNNING"))
    time_passes()
    turn(target)
    job.refresh_from_db()
    assert (job.state, job.native_id, slurm.calls().count("sbatch")) == ("queued", "9", 1)


def stop_starting(how: str, job: Job) -> None:
    if how == "run":
        hold_planned(root_uuid=job.root_uuid)
    elif how == "target":
        Target.objects.update(paused=True)
    else:
        begin_drain(reason="upgrade")


def start_again(how: str, job: Job) -> None:
    release_held(root_uuid=job.root_uuid)
    Target.objects.update(paused=False)
    end_drain()


def time_passes() -> None:
    Job.objects.update(lease_until="2020-01-01T00:00:00Z")
    ClusterWatch.objects.update(submit_after=None)
