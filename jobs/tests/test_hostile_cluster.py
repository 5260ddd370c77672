"""A cluster whose commands print what no SLURM should: it harms itself, never the rest, and no screen."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs import following
from jobs.check import check_target
from jobs.clusters import drive_cluster
from jobs.executors.slurm.parse import parse_queue
from jobs.executors.slurm.scripts import parse_look
from jobs.following import folder_of, name_of
from jobs.hosts import this_host
from jobs.models import Cluster, ClusterWatch, Job, Target
from jobs.printed import visible
from record.models import Lab

pytestmark = pytest.mark.django_db
Say = Callable[[str, str], None]
EVIL = r"\0\033[2J\033]0;owned\007\x9bevil\u2028"


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    folder = tmp_path / "commands"
    folder.mkdir()
    return folder


@pytest.fixture
def say(commands: Path) -> Say:
    """Have a command of the cluster be a shell script."""

    def _say(command: str, body: str) -> None:
        path = commands / command
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    for command in ("squeue", "sacct", "scancel", "scontrol", "sinfo"):
        _say(command, "exit 0")
    _say("sbatch", "echo 7")
    return _say


@pytest.fixture
def target(lab: Lab, tmp_path: Path, commands: Path) -> Target:
    target = Target.objects.create(
        lab=lab, name="cluster", kind="slurm", host=this_host(), roots=[str(tmp_path)], slots=5,
        job_folder=str(tmp_path / "jobs"),
    )  # fmt: skip
    Cluster.objects.create(
        target=target, commands_folder=str(commands), poll_floor_s=1, poll_ceiling_s=2, look_up_wait_s=2, agree_s=2,
        lost_after_s=4,
    )  # fmt: skip
    return target


def drive(job: Job) -> Job:
    ClusterWatch.objects.filter(pk=job.target_id).update(poll_due_at=None, closed_until=None, submit_after=None)
    drive_cluster(job.target_id)
    job.refresh_from_db()
    return job


def is_harmless(text: str) -> bool:
    return visible(text) == text


def test_a_refusal_full_of_control_characters(plan: Callable[..., Job], say: Say) -> None:
    say("sbatch", f"printf 'sbatch: error: Invalid partition name specified {EVIL}' >&2; exit 1")
    job = drive(plan())
    assert job.state == "failed"
    assert "Invalid partition name specified" in job.reason and is_harmless(job.reason), repr(job.reason)


def test_a_failed_question_full_of_control_characters(plan: Callable[..., Job], say: Say) -> None:
    job = drive(plan())
    assert job.state == "queued"
    say("squeue", f"printf 'slurm_load_jobs error: {EVIL}' >&2; exit 1")
    drive(job)
    watch = ClusterWatch.objects.get()
    assert watch.failures == 1
    assert "slurm_load_jobs" in watch.problem and is_harmless(watch.problem), repr(watch.problem)


def test_rows_full_of_control_characters(plan: Callable[..., Job], say: Say) -> None:
    job = drive(plan())
    for state, reason in (("PENDING", f"Odd{EVIL}"), (f"ODD{EVIL}", "None")):
        row = f"7|7|N/A|{state}|{reason}|2026-11-30T12:00:00|N/A|N/A|{name_of(job)}"
        say("squeue", f"printf '{row}\\n'")
        job = drive(job)
        assert job.state == "queued"
        assert "dd" in job.reason.lower() and is_harmless(job.reason), repr(job.reason)
        assert is_harmless(str(job.native_raw["rows"])[2:-2]), job.native_raw


def test_junk_in_one_token_folder_stops_no_other_job(plan: Callable[..., Job], say: Say) -> None:
    job, other = plan(), plan()
    say("sbatch", 'n=$(cat "$0.n" 2>/dev/null || echo 6); echo $((n + 1)) | tee "$0.n"')
    drive(job)
    other.refresh_from_db()
    folder, elsewhere = Path(folder_of(job)), Path(folder_of(other))
    (folder / "submit.1.bak").mkdir()
    (folder / "submit.\u00b2").mkdir()
    for name in ("exit.junk", "exit.7.x", "exit.7.\u00b2", "started.7.x", "exit.7.99999999999999999999", "streams.x"):
        (folder / name).write_text("0 1\n")
    (folder / "exit.7.0").write_text("\u00b2 99999999999999999999\n")
    (folder / "exit.7.1").write_text("0 99999999999999999999\n")
    (folder / "exit.7_3.1").write_text("99999999999999999999 9\n")
    (elsewhere / "exit.8.0").write_text("0 1796000000\n")
    (elsewhere / "owner").write_text("8.1\n")
    drive(job)
    other.refresh_from_db()
    assert (job.state, other.state) == ("unknown", "succeeded")


def test_a_complaint_can_not_pass_for_a_fact() -> None:
    said = "odd words\x0cid 999\x0bowner 999.1\x1eexit 999.0 0 1\u2028id 998\x85id 997"
    folder = parse_look(f"now 1796000000\nfolder /jobs/a\nsubmit 1 1796000000 1 - {said}\n")[1]["/jobs/a"]
    assert (folder.native_id, folder.owner, folder.exits) == ("", "", {})
    row = "7|7|N/A|PENDING|None|2026-11-30T12:00:00|N/A|N/A|other\x0c7|7|N/A|COMPLETED|None|N/A|N/A|N/A|ours"
    assert [each.state for each in parse_queue(row)] == ["PENDING"]


def test_an_answer_without_end_is_given_up(plan: Callable[..., Job], say: Say) -> None:
    job = drive(plan())
    say("squeue", "exec yes 'nothing but garbage'")
    drive(job)
    watch = ClusterWatch.objects.get()
    assert watch.failures == 1 and "MiB" in watch.problem, watch.problem


def test_garbage_is_no_answer(plan: Callable[..., Job], say: Say) -> None:
    job = drive(plan())
    say("squeue", "head -c 5000000 /dev/urandom")
    say("sacct", "head -c 100000 /dev/urandom")
    assert drive(job).state in ("queued", "unknown")
    assert ClusterWatch.objects.get().failures == 0


def test_a_job_that_can_not_be_written_down_keeps_no_other_waiting(
    plan: Callable[..., Job], say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, other = plan(), plan()
    say("sbatch", 'n=$(cat "$0.n" 2>/dev/null || echo 6); echo $((n + 1)) | tee "$0.n"')
    drive(job)
    row = "2026-11-30T12:00:00|2026-11-30T12:00:01|N/A"
    rows = [f"{number}|{number}|N/A|RUNNING|None|{row}|{name_of(each)}" for number, each in ((7, job), (8, other))]
    say("squeue", f"printf '%s\\n' '{rows[0]}' '{rows[1]}'")
    keep = following.keep_raw

    def refuse(row: Job, *given: Any, **named: Any) -> None:
        if row.pk == job.pk:
            raise ValueError("a database that can't keep it")
        keep(row, *given, **named)

    monkeypatch.setattr(following, "keep_raw", refuse)
    drive(job)
    other.refresh_from_db()
    assert (job.state, other.state) == ("queued", "running")
    assert ClusterWatch.objects.get().failures == 0


def test_the_check_of_a_cluster_that_prints_garbage(target: Target, say: Say) -> None:
    say(
        "sinfo",
        "head -c 300000 /dev/urandom | base64; yes 'name up' | head -n 5; head -c 300000 /dev/zero | tr '\\0' x",
    )
    say("scontrol", "printf 'MessageTimeout = '; head -c 9000 /dev/zero | tr '\\0' 9; echo")
    say("sacct", "head -c 300000 /dev/urandom >&2; exit 1")
    say("sbatch", f"head -c 300000 /dev/urandom >&2; printf '{EVIL}' >&2; exit 1")
    found = check_target(target)
    assert all(len(finding.message) < 2500 and is_harmless(finding.message) for finding in found), found
    assert any("its partitions: name" in finding.message for finding in found), found
