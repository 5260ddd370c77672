"""Jobs on a real SLURM, from the row to its end, through the services that the task cluster calls."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs.check import check_target
from jobs.clusters import drive_cluster, nudge_clusters
from jobs.executors.slurm.site import Site
from jobs.following import folder_of, name_of
from jobs.hosts import this_host
from jobs.lost import settle_lost
from jobs.models import Cluster, ClusterWatch, Job, Target
from jobs.services import Resources, request_cancel
from jobs.states import JobState
from jobs.tests.cluster.daemons import until
from jobs.tests.cluster.needs import find
from jobs.tests.cluster.slurm import SlurmCluster
from jobs.tests.cluster.sshd import ordinary_user, second_group
from jobs.tests.test_shell_contract import kept
from record.models import Event, Lab
from record.services import Author

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
SOMEBODY = Author.policy("tests")
Plan = Callable[..., Job]


@pytest.fixture
def target(lab: Lab, tmp_path: Path, slurm: SlurmCluster) -> Iterator[Target]:
    """A target on a real SLURM; `plan` of the conftest plans on it."""
    target = Target.objects.create(
        lab=lab,
        name="cluster",
        kind="slurm",
        host=this_host(),
        roots=[str(tmp_path)],
        job_folder=str(tmp_path / "jobs"),
    )
    Cluster.objects.create(
        target=target, conf_path=slurm.env["SLURM_CONF"], poll_floor_s=1, poll_ceiling_s=2, look_up_wait_s=2, agree_s=2,
        lost_after_s=4,
    )  # fmt: skip
    yield target
    slurm.call("scancel", "--user=root")


@pytest.fixture
def run(plan: Plan, target: Target) -> Callable[..., Job]:
    def _run(body: str, *, lines: str = "", **given: Any) -> Job:
        return plan(script=f"#!/bin/bash\n{lines}{body}\n", resources=Resources(120, 1024), **given)

    return _run


def drive(job: Job, *states: str, within_s: float = 25) -> Job:
    """Deal with the cluster again and again, as nudges do, until the job is in one of the states."""
    deadline = time.monotonic() + within_s
    while True:
        ClusterWatch.objects.filter(pk=job.target_id).update(poll_due_at=None, closed_until=None, submit_after=None)
        drive_cluster(job.target_id)
        job.refresh_from_db()
        if job.state in states:
            return job
        assert time.monotonic() < deadline, (job.state, job.reason, job.native_raw, ClusterWatch.objects.values())
        time.sleep(0.2)


def commands(tmp_path: Path, *, without: str) -> Path:
    """A folder with SLURM's commands but for one."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for name in {"sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo"} - {without}:
        (folder / name).symlink_to(find(name) or name)
    return folder


def kinds(job: Job) -> list[str]:
    return list(Event.objects.filter(subject_uuid=job.uuid).order_by("id").values_list("kind", flat=True))


def ran(tmp_path: Path) -> list[str]:
    path = tmp_path / "ran"
    return path.read_text().splitlines() if path.exists() else []


def test_from_planned_to_succeeded(run: Callable[..., Job], tmp_path: Path) -> None:
    job = drive(run("echo ran >> ran; echo said; sleep 1"), "running")
    assert job.native_id.isdigit()
    job = drive(job, "succeeded")
    assert (job.exit_code, job.reason, ran(tmp_path)) == (0, "", ["ran"])
    assert Path(job.stdout_path).read_text() == "said\n"
    assert kinds(job) == ["job.plan", "job.claim", "job.enqueue", "job.start", "job.succeed"]
    watch = ClusterWatch.objects.get()
    assert (watch.driver, watch.problem) == ("", "")


def test_a_failure_keeps_its_code(run: Callable[..., Job]) -> None:
    job = drive(run("exit 7", lines="#SBATCH -o logs/%x.%j.log\n"), "failed")
    assert (job.exit_code, job.reason) == (7, "Exit code 7. See the end of its error log.")
    assert job.stdout_path.endswith(f"/logs/{name_of(job)}.{job.native_id}.log")
    assert job.stdout_path == job.stderr_path


def test_a_refused_job_fails_at_once(run: Callable[..., Job], target: Target) -> None:
    Cluster.objects.update(partition="nowhere")
    job = drive(run("true"), "failed", within_s=1)
    assert "Invalid partition name specified" in job.reason
    assert job.native_id == ""


def test_several_jobs_share_one_question(run: Callable[..., Job], target: Target, monkeypatch: Any) -> None:
    Target.objects.update(slots=5)
    jobs = [run("sleep 30") for _ in range(5)]
    drive(jobs[-1], "running")
    calls: list[str] = []
    from jobs.shells import LocalShell

    ask = LocalShell.run
    monkeypatch.setattr(
        LocalShell, "run", lambda self, argv, **given: calls.append(argv[0]) or ask(self, argv, **given)
    )
    ClusterWatch.objects.update(poll_due_at=None)
    drive_cluster(target.pk)
    assert calls == ["squeue"]


def test_cancelling_is_verified(run: Callable[..., Job]) -> None:
    job = drive(run("sleep 60"), "running")
    request_cancel(job=job, author=SOMEBODY, reason="wrong species")
    job = drive(job, "cancelled")
    assert job.reason == "Cancelled by tests: wrong species"


def test_what_waits_says_why(run: Callable[..., Job], target: Target) -> None:
    Cluster.objects.update(partition="off")
    job = drive(run("true"), "queued")
    for _ in range(20):
        if "PartitionDown" in job.reason:
            break
        time.sleep(0.3)
        job = drive(job, "queued")
    assert "its partition is down" in job.reason
    request_cancel(job=job, author=SOMEBODY)
    drive(job, "cancelled")


def test_a_preemption_is_believed_when_it_stands(run: Callable[..., Job], slurm: SlurmCluster) -> None:
    job = drive(run("sleep 60", lines="#SBATCH --exclusive --nodelist=n2\n"), "running")
    slurm.call("sbatch", "-p", "urgent", "--exclusive", "-w", "n2", "-o", "/dev/null", "--wrap", "sleep 1")
    began = time.monotonic()
    job = drive(job, "preempted", within_s=40)
    assert time.monotonic() - began > 2
    assert job.native_raw["provisional"]["event"] == "preempt"


def test_a_node_that_fails(run: Callable[..., Job], slurm: SlurmCluster) -> None:
    job = drive(run("sleep 60", lines="#SBATCH --nodelist=n4\n"), "running")
    slurm.update("NodeName=n4", "State=DOWN", "Reason=test")
    try:
        job = drive(job, "node_failed", within_s=40)
    finally:
        slurm.call("scontrol", "update", "NodeName=n4", "State=RESUME")  # fails where it has come back by itself
    assert "A node on which it ran failed" in job.reason


def test_memory(run: Callable[..., Job]) -> None:
    body = "exec python3 -c 'import time; block = bytearray(400 * 1024**2); time.sleep(30)'"
    job = drive(run(body, lines="#SBATCH --mem=50M\n"), "out_of_memory", within_s=40)
    assert "more memory than it had asked for" in job.reason


def test_time(run: Callable[..., Job], slurm: SlurmCluster) -> None:
    job = drive(run("sleep 100"), "running")
    slurm.update(f"JobId={job.native_id}", "EndTime=now+2")
    assert drive(job, "timed_out", within_s=60).reason == "It ran into its time limit."


def test_what_a_job_makes_has_the_targets_umask_and_group(
    run: Callable[..., Job], target: Target, tmp_path: Path
) -> None:
    group = second_group(ordinary_user())
    Target.objects.update(umask="027", group=group)
    target.refresh_from_db()
    job = run("touch logs/made; umask > seen", target=target, lines="#SBATCH -o logs/%x.out\n")

    job = drive(job, "succeeded")

    folder = Path(folder_of(job))
    exits = next(folder.glob("exit.*"))
    for path in (folder.parent, folder, folder / "submit.1", tmp_path / "logs"):
        assert kept(path) == ("2750", group), path
    for path in (exits, folder / "owner", folder / "id", Path(job.stdout_path), tmp_path / "logs" / "made"):
        assert kept(path) == ("640", group), path
    assert (tmp_path / "seen").read_text() == "0027\n"
    words = f"What is made there belongs to the group {group} and has the umask 027."
    assert [each.ok for each in check_target(target) if each.message == words] == [True]


@pytest.mark.parametrize("slurm", ["accounting"], indirect=True)
def test_a_cluster_with_a_name(run: Callable[..., Job], target: Target, tmp_path: Path) -> None:
    Cluster.objects.update(cluster_name="lab", look_up_wait_s=150)
    assert [each.message for each in check_target(target) if not each.ok] == []
    job = drive(run("echo ran >> ran; sleep 1; exit 3"), "running")
    assert job.native_id.endswith(";lab")
    abandoned(job)
    job = drive(job, "failed")
    assert (job.exit_code, ran(tmp_path), job.native_id[-4:]) == (3, ["ran"], ";lab")
    other = drive(run("sleep 60"), "running")
    request_cancel(job=other, author=SOMEBODY)
    drive(other, "cancelled")
    Cluster.objects.update(cluster_name="nowhere")
    assert any("nowhere" in each.message for each in check_target(target) if not each.ok)


def test_a_requeue_is_followed(run: Callable[..., Job], slurm: SlurmCluster, tmp_path: Path) -> None:
    Cluster.objects.update(requeue=True)
    job = run('echo start >> ran; [ -n "$SLURM_RESTART_COUNT" ] || sleep 60; sleep 2')
    drive(job, "running")
    until(lambda: ran(tmp_path), within_s=20, what="it has begun")
    slurm.call("scontrol", "requeue", job.native_id)
    native_id = job.native_id
    job = drive(job, "queued")
    assert "it waits" in job.reason.lower()
    time.sleep(2)  # SLURM takes a late word of the first start for one of the second, where that comes at once
    slurm.call("scontrol", "update", f"JobId={native_id}", "StartTime=now")
    drive(job, "running", within_s=60)
    job = drive(job, "succeeded")
    assert (ran(tmp_path), job.native_id) == (["start", "start"], native_id)
    assert kinds(job)[2:] == ["job.enqueue", "job.start", "job.requeue", "job.start", "job.succeed"]


@pytest.mark.parametrize("slurm", ["plain"], indirect=True)
def test_an_unknown_state_is_kept_told_and_no_end(run: Callable[..., Job], tmp_path: Path) -> None:
    """As of a SLURM that is newer than our table."""
    folder = commands(tmp_path, without="squeue")
    (folder / "squeue").write_text(f"#!/bin/bash\n{find('squeue')} \"$@\" | sed 's/|RUNNING|/|HIBERNATING|/'\n")
    (folder / "squeue").chmod(0o755)
    Cluster.objects.update(commands_folder=str(folder))
    job = run("until [ -e go ]; do sleep 0.1; done")
    until(lambda: "HIBERNATING" in drive(job, "queued").reason, within_s=20, what="it is told")
    job = drive(drive(job, "queued"), "queued")
    assert (job.state, job.ended_at) == ("queued", None)
    assert "HIBERNATING" in str(job.native_raw["rows"])
    told = Event.objects.get(subject_uuid=job.uuid, kind="job.puzzle")  # once, not at each look
    assert "HIBERNATING" in told.message
    (tmp_path / "go").touch()
    assert drive(job, "succeeded").exit_code == 0


def test_what_waits_for_ever_says_so(run: Callable[..., Job], slurm: SlurmCluster) -> None:
    failed = (slurm.call("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "exit 1") or "").strip()
    until(lambda: "FAILED" in (slurm.call("scontrol", "show", "job", failed) or ""), within_s=20, what="it has failed")
    job = drive(run("true", lines=f"#SBATCH --dependency=afterok:{failed}\n"), "cancelled", "failed", within_s=40)
    assert job.reason == (
        "It was cancelled at the cluster: a job that it depends on ended otherwise than it wants: it will never start "
        "(DependencyNeverSatisfied)."
    )
    assert "DependencyNeverSatisfied" in job.native_raw["rows"][0]


@pytest.mark.parametrize("slurm", ["accounting"], indirect=True)
def test_limits_of_an_association_are_told_in_words(run: Callable[..., Job], slurm: SlurmCluster) -> None:
    modify = ("sacctmgr", "-i", "modify", "user", "root", "set")
    slurm.call(*modify, "MaxJobs=1")
    try:
        first, second = run("sleep 60"), run("true")
        drive(first, "running")
        until(lambda: "AssocMaxJobsLimit" in drive(second, "queued").reason, within_s=30, what="the limit is named")
        assert "It waits in the queue" in second.reason
    finally:
        slurm.call(*modify, "MaxJobs=-1")


@pytest.mark.parametrize("slurm", ["plain"], indirect=True)
def test_an_id_that_comes_round_again_is_anothers(
    run: Callable[..., Job], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A controller that has lost its memory gives ids out again: that job is neither followed nor cancelled as ours."""
    own = SlurmCluster(accounting=False, users=(ordinary_user(),))
    request.addfinalizer(own.stop)
    own.start()
    Cluster.objects.update(conf_path=own.env["SLURM_CONF"])
    job = drive(run("sleep 60", lines="#SBATCH -w n1\n"), "running")
    for daemon in (own.nodes[0], own.controller):
        daemon.kill()
    for path in own.folder.glob("state/job_state*"):
        path.unlink()
    own.start_controller()
    theirs = ""
    while theirs != job.native_id:
        argv = ("sbatch", "--parsable", "-w", "n2", "-J", "theirs", "-o", "/dev/null", "--wrap", "sleep 60")
        theirs = (own.call(*argv) or "").strip()
        assert int(theirs) <= int(job.native_id)

    job = drive(job, "unknown")
    request_cancel(job=job, author=SOMEBODY)
    job = drive(job, "lost", "cancelled", within_s=30)

    assert job.state == "lost"  # its script may still run: nobody knows
    assert "JobState=CANCELLED" not in (own.call("scontrol", "show", "job", theirs) or "JobState=CANCELLED")


def test_an_array(run: Callable[..., Job], tmp_path: Path) -> None:
    job = run("echo $SLURM_ARRAY_TASK_ID >> ran; [ $SLURM_ARRAY_TASK_ID != 2 ]", lines="#SBATCH --array=1-4%3\n")
    job = drive(job, "failed", within_s=40)
    assert sorted(ran(tmp_path)) == ["1", "2", "3", "4"]
    assert "1 of its 4 tasks: 2." in job.reason


def test_a_submitter_that_died_before_anything_left(run: Callable[..., Job], target: Target, tmp_path: Path) -> None:
    job = run("echo ran >> ran")
    (tmp_path / "jobs").mkdir()
    abandoned(job)
    job = drive(job, "succeeded")
    assert (ran(tmp_path), job.generation) == (["ran"], 2)


def test_a_submitter_that_died_before_it_wrote_the_id_down(run: Callable[..., Job], tmp_path: Path) -> None:
    job = drive(run("echo ran >> ran; sleep 1"), "queued", "running")
    native_id = job.native_id
    abandoned(job)
    job = drive(job, "succeeded")
    assert (ran(tmp_path), job.native_id) == (["ran"], native_id)


def test_a_submission_that_was_cut_off_is_found_by_name(run: Callable[..., Job], tmp_path: Path) -> None:
    job = drive(run("echo ran >> ran; sleep 2"), "queued", "running")
    native_id = job.native_id
    for path in (f"{folder_of(job)}/id", f"{folder_of(job)}/submit.1/id", f"{folder_of(job)}/submit.1/code"):
        os.unlink(path)
    abandoned(job)
    job = drive(job, "succeeded")
    assert (ran(tmp_path), job.native_id) == (["ran"], native_id)


def test_a_submission_that_never_reached_the_cluster_is_made_again(run: Callable[..., Job], tmp_path: Path) -> None:
    job = run("echo ran >> ran")
    abandoned(job)
    (Path(folder_of(job)) / "submit.1").mkdir(parents=True)
    began = time.monotonic()
    job = drive(job, "succeeded")
    assert time.monotonic() - began > 2  # not before the wait was over
    assert ran(tmp_path) == ["ran"]
    assert not job.native_raw.get("empty_look_ups")


def test_a_job_that_the_controller_forgot_is_handed_over_again(
    run: Callable[..., Job], tmp_path: Path, slurm: SlurmCluster
) -> None:
    job = drive(run("echo ran >> ran", lines="#SBATCH --begin=now+60\n"), "queued")
    Job.objects.update(native_id="987654")
    (Path(folder_of(job)) / "id").write_text("987654\n")
    (Path(folder_of(job)) / "submit.1" / "id").write_text("987654\n")
    slurm.update(f"JobId={job.native_id}", "JobName=another")
    forgotten = job.native_id

    drive(job, "unknown")
    job = drive(job, "queued", within_s=15)

    assert job.native_id not in (forgotten, "987654")
    assert kinds(job)[-4:] == ["job.lose_sight", "job.reclaim", "job.reclaim", "job.enqueue"]
    slurm.call("scancel", forgotten)


def test_a_job_that_hung_nodes_could_not_launch_is_handed_over_again(
    run: Callable[..., Job], tmp_path: Path, slurm: SlurmCluster
) -> None:
    for node in slurm.nodes:
        node.stall()
    try:
        job = drive(run("echo ran >> ran"), "running")
        until(
            lambda: "COMPLETING" in (slurm.call("squeue", "-h", "-j", job.native_id, "-o", "%T") or ""),
            within_s=60, what="SLURM gives up launching it",
        )  # fmt: skip
    finally:
        for node in slurm.nodes:
            node.resume()

    first, job = job.native_id, drive(job, "succeeded", within_s=60)

    assert ran(tmp_path) == ["ran"]
    assert job.native_id != first and job.generation > 1


def test_a_script_that_tidies_up_when_it_is_cancelled_at_the_cluster_was_cancelled(
    run: Callable[..., Job], tmp_path: Path, slurm: SlurmCluster
) -> None:
    job = drive(run("trap 'exit 0' TERM; echo ran >> ran; sleep 60 & wait"), "running")
    until(lambda: ran(tmp_path), within_s=20, what="it runs")

    slurm.call("scancel", job.native_id)

    job = drive(job, "cancelled")
    assert job.exit_code in (0, None)  # the exit file may not be there yet
    assert job.reason == "It was cancelled at the cluster."


def test_what_is_declared_ended_begins_no_more(run: Callable[..., Job], slurm: SlurmCluster, tmp_path: Path) -> None:
    """A submission may still be queued where nobody looks; its guard finds the job closed."""
    job = drive(run("echo ran >> ran", lines="#SBATCH --begin=now+1hour\n"), "queued")
    Job.objects.filter(pk=job.pk).update(state="lost")

    settle_lost(job=job, author=SOMEBODY, reason="the cluster was set up anew")
    job.refresh_from_db()
    assert job.reason == "Declared ended by tests: the cluster was set up anew"
    slurm.call("scontrol", "update", f"jobid={job.native_id}", "starttime=now")

    gone = ("squeue", "--noheader", f"--jobs={job.native_id}", "--states=PENDING,RUNNING,COMPLETING")
    until(lambda: not (slurm.call(*gone) or "").strip(), within_s=30, what="the late submission has ended")
    assert ran(tmp_path) == []


def test_what_cannot_be_closed_is_declared_ended_and_told(run: Callable[..., Job], target: Target) -> None:
    job = drive(run("true", lines="#SBATCH --begin=now+1hour\n"), "queued")
    Job.objects.filter(pk=job.pk).update(state="lost")
    shutil.rmtree(folder_of(job))
    Path(folder_of(job)).write_text("no folder")

    settle_lost(job=job, author=SOMEBODY, reason="it burnt down")
    job.refresh_from_db()
    assert job.state == "failed" and "(a submission that is still queued could begin: " in job.reason


def test_what_nobody_knows_is_lost_and_late_evidence_counts(run: Callable[..., Job], tmp_path: Path) -> None:
    job = drive(run("echo ran >> ran; sleep 1"), "running")
    native_id = job.native_id
    Job.objects.update(native_id="987654")
    (Path(folder_of(job)) / "owner").write_text("987654.1\n")
    job = drive(job, "lost")
    assert "Nothing is tried again until somebody decides" in job.reason
    (Path(folder_of(job)) / "exit.987654.0").write_text(f"0 {int(time.time())}\n")
    job = drive(job, "succeeded")
    assert kinds(job)[-3:] == ["job.lose_sight", "job.lose", "job.succeed"]
    assert native_id != "987654"


def test_a_controller_that_is_away_changes_nothing(
    run: Callable[..., Job], slurm: SlurmCluster, target: Target
) -> None:
    job = drive(run("sleep 3"), "running")
    slurm.controller.stop()
    try:
        ClusterWatch.objects.update(poll_due_at=None)
        drive_cluster(target.pk)
        watch = ClusterWatch.objects.get()
        assert watch.failures == 1
        assert "nable to contact slurm controller" in watch.problem
        assert Job.objects.get().state == JobState.RUNNING
        assert drive_cluster(target.pk) == 0  # the breaker
    finally:
        slurm.start_controller()
    drive(job, "succeeded")
    assert ClusterWatch.objects.get().problem == ""


def test_nudges_are_sent_once(run: Callable[..., Job], target: Target) -> None:
    from django_q.models import OrmQ

    assert nudge_clusters() == 0
    run("true")
    assert nudge_clusters() == 1
    assert nudge_clusters() == 0
    assert OrmQ.objects.count() == 1
    ClusterWatch.objects.update(nudged_at="2020-01-01T00:00:00Z")
    assert nudge_clusters() == 0  # nobody takes it: another one would not be taken either
    OrmQ.objects.update(lock=timezone.now() + timedelta(seconds=400))  # taken, and nothing came of it
    assert nudge_clusters() == 1
    assert OrmQ.objects.count() == 2


def test_a_target_is_left_to_its_own_host(run: Callable[..., Job], target: Target) -> None:
    job = run("true")
    Target.objects.update(host="elsewhere")
    assert nudge_clusters() == 0
    assert drive_cluster(target.pk) == 0
    job.refresh_from_db()
    assert job.state == JobState.PLANNED


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1"),
        ("", "kill -KILL $PPID; sleep 1"),
        ("kill -KILL $PPID; exit 1", ""),
        ("echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1", ""),
        ("echo 'sbatch: error: Job violates accounting/QOS policy (job submit limit)' >&2; exit 1", ""),
    ],
    ids=["says-it-failed-yet-it-did-not", "dies-after", "dies-before", "fails", "is-refused-for-now"],
)
def test_submissions_that_go_wrong_once(run: Callable[..., Job], tmp_path: Path, before: str, after: str) -> None:
    """Whatever becomes of sbatch or of who called it, the job runs once."""
    folder = commands(tmp_path, without="sbatch")
    real = find("sbatch")
    lines = ["#!/bin/bash", f"if mkdir {folder}/once 2>/dev/null; then", before, f'{real} "$@" >/dev/null', after, "fi"]
    (folder / "sbatch").write_text("\n".join([*lines, f'exec {real} "$@"', ""]))
    (folder / "sbatch").chmod(0o755)
    Cluster.objects.update(commands_folder=str(folder))

    job = drive(run("echo ran >> ran"), "succeeded", within_s=40)

    assert ran(tmp_path) == ["ran"]
    assert job.exit_code == 0


def abandoned(job: Job) -> None:
    """As if its submitter had died after the claim."""
    Job.objects.filter(pk=job.pk).update(
        state="submitting", native_id="", holder="another-boot:1:1", lease_until="2020-01-01T00:00:00Z",
        generation=1, submitted_at=None,
    )  # fmt: skip


def test_the_site_is_made_of_the_rows(target: Target) -> None:
    Cluster.objects.update(partition="gpu", gres="gpu:2")
    site = Cluster.objects.get().site()
    assert isinstance(site, Site)
    assert (site.partition, site.gres) == ("gpu", "gpu:2")
