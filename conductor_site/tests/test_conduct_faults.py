"""`conduct` and guards that die or stall at each boundary: one execution, one row, the right end."""

import os
import signal
import time
from pathlib import Path

import pytest

from conductor_site.tests.stage import Stage

pytestmark = pytest.mark.slow

BOUNDARIES = [
    "claimed",
    "folder_made",
    "submit_made",
    "before_spawn",
    "spawned",
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
    assert first.wait(15) == -signal.SIGKILL

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


@pytest.mark.parametrize(
    ("boundary", "states", "runs"),
    [
        ("before_owner", {"succeeded"}, {1}),
        ("after_owner", {"succeeded"}, {1}),
        ("started", {"succeeded", "failed"}, {0, 1}),  # the child may have begun by then, or not
        ("before_exit", {"failed"}, {1}),
        ("after_exit", {"succeeded"}, {1}),
    ],
)
def test_guard_killed(stage: Stage, boundary: str, states: set[str], runs: set[int]) -> None:
    stage.plan("echo ran >> ran", environment={"CONDUCTOR_GUARD_FAULT": f"{boundary}:KILL"})

    stage.conduct()

    row = stage.until(lambda: next((row for row in stage.rows() if row["ended_at"]), None), what="the end")
    assert row["state"] in states
    assert len(stage.lines()) in runs
    assert row["state"] == "failed" or stage.lines() == ["ran"]
    if row["state"] == "failed":
        assert "guard was killed while the script was running" in row["reason"]
    assert len(ends(stage)) == 1


@pytest.mark.parametrize("boundary", ["before_owner", "after_owner", "started", "before_exit", "after_exit"])
def test_guard_stalled_and_conduct_killed(stage: Stage, boundary: str) -> None:
    stage.plan("echo ran >> ran", environment={"CONDUCTOR_GUARD_FAULT": f"{boundary}:STOP"})
    first = stage.conduct()
    guard = int(stage.until(lambda: stage.job()["native_id"], what="a guard").split(":")[1])
    if boundary != "after_exit":
        stage.until(lambda: is_stopped(guard), what="stalled")
    first.kill()

    stage.conduct()

    if boundary != "after_exit":  # after its last word nobody waits for it
        stage.until(lambda: "conduct runs" in stage.conduct_log().partition("conduct runs")[2], what="the second")
        assert stage.job()["state"] == "running"
        os.kill(guard, signal.SIGCONT)
    stage.until_state("succeeded")
    assert stage.lines() == ["ran"]
    assert ends(stage) == ["job.succeed"]
    stage.until(lambda: not Path(f"/proc/{guard}").exists(), what="the guard is gone")


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
    stage.execute("update jobs_job set cancel_requested_at = '2026-01-01 00:00:00', reason = 'Being cancelled. Enough'")

    stage.conduct(data="other")

    stage.until_state("cancelled")
    first.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert stage.lines() == []
    assert ends(stage) == ["job.cancel"]


def stopped_guards(stage: Stage) -> list[int]:
    token = str(stage.job()["token"])
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode()
                if token in command and is_stopped(int(entry.name)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
