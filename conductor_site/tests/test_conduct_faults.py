"""`conduct` and guards that die or stall at each boundary: one execution, one row, the right end."""

import os
import shutil
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from conductor_site.tests.stage import LONG_S, Stage
from jobs import processes

pytestmark = pytest.mark.slow

BOUNDARIES = [
    "claimed",
    "folder_made",
    "submit_made",
    "before_spawn",
    "spawned",
    "given",
    "recorded",
    "before_final",
    "final_recorded",
]
ENDS = {"job.succeed", "job.fail", "job.cancel", "job.time_out"}


def is_stopped(pid: int) -> bool:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text[text.rindex(")") + 2] in "Tt"


def ends(stage: Stage) -> list[str]:
    return [kind for kind in stage.events() if kind in ENDS]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_conduct_killed(stage: Stage, boundary: str) -> None:
    stage.plan("echo ran >> ran; sleep 0.3")
    first = stage.conduct(fault=f"{boundary}:kill")
    assert first.wait(LONG_S) == -signal.SIGKILL

    stage.conduct()

    row = stage.until_state("succeeded")
    assert stage.lines() == ["ran"]
    assert (row["exit_code"], row["final_handled"]) == (0, 1)
    assert ends(stage) == ["job.succeed"]


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_conduct_stalled_and_overtaken(stage: Stage, boundary: str) -> None:
    stage.plan("echo ran >> ran; sleep 0.3")
    first = stage.conduct(fault=f"{boundary}:stop")
    stage.until(lambda: first.poll() is None and is_stopped(first.pid), what="stalled")

    second = stage.conduct(data="other")

    stage.until_state("succeeded")
    first.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert stage.lines() == ["ran"]
    assert ends(stage) == ["job.succeed"]
    assert stage.job()["state"] == "succeeded"
    assert first.poll() is None and second.poll() is None


GUARD_BOUNDARIES = ["before_owner", "after_owner", "started", "before_exit", "after_exit"]


def plan_with_guard_faults(stage: Stage, action: str) -> None:
    """One job a boundary; each appends its token where it runs."""
    stage.execute("update jobs_target set slots = 10")
    for boundary in GUARD_BOUNDARIES:
        stage.plan("echo $CONDUCTOR_TOKEN >> ran", environment={"CONDUCTOR_GUARD_FAULT": f"{boundary}:{action}"})


def test_guards_killed(stage: Stage) -> None:
    plan_with_guard_faults(stage, "KILL")

    stage.conduct()

    stage.until(lambda: all(row["ended_at"] for row in stage.rows()), what="the ends")
    rows = dict(zip(GUARD_BOUNDARIES, stage.rows(), strict=True))
    states = {boundary: str(row["state"]) for boundary, row in rows.items()}
    assert states.pop("started") in {"succeeded", "failed"}  # the child may have begun by then, or not
    assert states == {
        "before_owner": "succeeded",
        "after_owner": "succeeded",
        "before_exit": "failed",
        "after_exit": "succeeded",
    }
    assert "guard was killed while the script was running" in str(rows["before_exit"]["reason"])
    ran = Counter(stage.lines())
    assert max(ran.values()) == 1
    assert all(row["state"] == "failed" or ran[str(row["token"])] == 1 for row in rows.values())
    assert len(ends(stage)) == len(rows)


def test_guards_stalled_and_conduct_killed(stage: Stage) -> None:
    plan_with_guard_faults(stage, "STOP")
    first = stage.conduct()
    stage.until(lambda: len(stopped_guards(stage)) >= len(GUARD_BOUNDARIES) - 1, what="stalled guards")
    stage.until(lambda: all(row["native_id"] for row in stage.rows()), what="recorded")
    first.kill()

    stage.conduct()

    stage.until(lambda: stage.rows()[-1]["state"] == "succeeded", what="after its last word nobody waits for a guard")
    time.sleep(1.2)
    assert [row["state"] for row in stage.rows()] == ["running"] * 4 + ["succeeded"]
    for pid in stopped_guards(stage):
        os.kill(pid, signal.SIGCONT)
    stage.until(lambda: {row["state"] for row in stage.rows()} == {"succeeded"}, what="all")
    assert sorted(stage.lines()) == sorted(str(row["token"]) for row in stage.rows())
    assert ends(stage) == ["job.succeed"] * len(GUARD_BOUNDARIES)
    stage.until(lambda: not guards(stage), what="all guards are gone")


def test_conduct_and_guard_stalled_before_the_claim_then_overtaken(stage: Stage) -> None:
    stage.plan("echo ran >> ran; sleep 0.2", environment={"CONDUCTOR_GUARD_FAULT": "before_owner:STOP"})
    first = stage.conduct(fault="spawned:stop")
    stage.until(lambda: is_stopped(first.pid), what="stalled")
    stalled = stage.until(lambda: stopped_guards(stage), what="a stalled guard")

    stage.conduct(data="other")

    stage.until_state("succeeded")
    for pid in [*stalled, first.pid]:
        os.kill(pid, signal.SIGCONT)
    stage.until(lambda: not stopped_guards(stage), what="guards go on")
    time.sleep(0.3)
    assert stage.lines() == ["ran"]
    assert ends(stage) == ["job.succeed"]


def test_cancelled_while_its_submitter_is_stalled_never_begins(stage: Stage) -> None:
    stage.plan("echo ran >> ran")
    first = stage.conduct(fault="before_spawn:stop")
    stage.until(lambda: is_stopped(first.pid), what="stalled")
    stage.execute("update jobs_job set cancel_requested_at = '2026-01-01 00:00:00'")

    stage.conduct(data="other")

    stage.until_state("cancelled")
    first.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert stage.lines() == []
    assert ends(stage) == ["job.cancel"]


def guards(stage: Stage) -> list[int]:
    """Living guards of the stage's jobs."""
    place = f"{stage.folder}/work/jobs/".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and place in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def stopped_guards(stage: Stage) -> list[int]:
    found = []
    for pid in guards(stage):
        with suppress(OSError):
            if is_stopped(pid):
                found.append(pid)
    return found


def test_a_job_whose_folder_was_taken_away_is_not_run_again(stage: Stage) -> None:
    stage.plan("echo ran >> ran; while [ ! -e go ]; do sleep 0.05; done")
    stage.conduct()
    stage.until(stage.lines, what="it runs")
    row = stage.until_state("running")
    shutil.rmtree(stage.token_folder())

    (stage.folder / "work" / "go").touch()

    row = stage.until_state("failed")
    assert "was taken away while the job was running" in row["reason"]
    assert stage.lines() == ["ran"]
    assert not processes.is_alive(row["native_id"])
