"""What `conduct` ends, and how it makes sure: cancelling, time and memory limits, slots, restarts."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conductor_site.tests.stage import LONG_S, Stage

pytestmark = pytest.mark.slow

CANCEL = "update jobs_job set cancel_requested_at = '2026-01-01 00:00:00'"


def carriers(token: str) -> list[int]:
    """Living processes with the job's token in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_cancelling_ends_all_even_what_ignores_sigterm_or_left_the_session(stage: Stage) -> None:
    stage.plan("trap '' TERM; setsid sleep 300 & sleep 301 & echo ran >> ran; while :; do sleep 1; done")
    stage.conduct()
    stage.until(stage.lines, what="it runs")
    token = str(stage.job()["token"])
    assert len(carriers(token)) >= 4

    stage.execute(CANCEL)

    row = stage.until_state("cancelled")
    assert carriers(token) == []
    assert row["reason"] == "Cancelled."  # nobody is named in the log
    assert row["final_handled"] == 1


def test_cancelling_lets_a_script_tidy_up(stage: Stage) -> None:
    stage.plan("trap 'echo tidied >> ran; exit 0' TERM; echo ran >> ran; while :; do sleep 0.05; done")
    stage.conduct()
    stage.until(stage.lines, what="it runs")

    stage.execute(CANCEL)

    row = stage.until_state("cancelled")
    assert stage.lines() == ["ran", "tidied"]
    assert row["exit_code"] == 0


def test_time_limit_holds_over_a_restart(stage: Stage) -> None:
    stage.plan("echo ran >> ran; sleep 60", time_limit_s=3)
    first = stage.conduct()
    stage.until(stage.lines, what="it runs")
    first.kill()

    stage.conduct()

    row = stage.until_state("timed_out")
    assert "longer than its limit of 3 s" in row["reason"]
    assert carriers(str(row["token"])) == []


def test_memory_limit_counts_all_processes_together(stage: Stage) -> None:
    hog = "python3 -c 'import time; held = b\"x\" * (60 << 20); time.sleep(30)'"
    stage.plan(f"{hog} & {hog} & wait", memory_mib=100)
    stage.conduct()

    row = stage.until_state("out_of_memory")

    assert "MiB of memory; its limit is 100 MiB" in row["reason"]
    assert carriers(str(row["token"])) == []


def test_memory_limit_counts_what_left_the_session(stage: Stage) -> None:
    hog = "python3 -c 'import time; held = b\"x\" * (120 << 20); time.sleep(30)'"
    stage.plan(f"setsid {hog} & sleep 30", memory_mib=100)
    stage.conduct()

    row = stage.until_state("out_of_memory")

    assert "MiB of memory; its limit is 100 MiB" in row["reason"]
    assert carriers(str(row["token"])) == []


def test_slots_oldest_first_and_pausing(stage: Stage) -> None:
    stage.execute("update jobs_target set slots = 2")
    stage.plan("echo $CONDUCTOR_TOKEN >> ran; until [ -e go ]; do sleep 0.02; done", count=4)
    stage.conduct()
    stage.until(lambda: len(stage.lines()) == 2, what="two run")
    time.sleep(1.2)
    assert [row["state"] for row in stage.rows()] == ["running", "running", "planned", "planned"]

    stage.execute("update jobs_target set paused = true")
    (stage.folder / "work" / "go").touch()
    stage.until(lambda: [row["state"] for row in stage.rows()][:2] == ["succeeded"] * 2, what="they end")
    time.sleep(1.2)
    assert [row["state"] for row in stage.rows()][2:] == ["planned"] * 2

    stage.execute("update jobs_target set paused = false")
    stage.until(lambda: {row["state"] for row in stage.rows()} == {"succeeded"}, what="all")
    assert sorted(stage.lines()) == sorted(str(row["token"]) for row in stage.rows())


def test_ends_that_nobody_saw_and_jobs_that_go_on(stage: Stage) -> None:
    stage.plan("echo short >> ran; sleep 0.5; exit 7")
    stage.plan("echo long >> ran; until [ -e go ]; do sleep 0.02; done")
    first = stage.conduct()
    stage.until(lambda: len(stage.lines()) == 2, what="both run")
    first.send_signal(signal.SIGTERM)
    assert first.wait(LONG_S) == 0
    time.sleep(0.7)
    assert [row["state"] for row in stage.rows()] == ["running", "running"]

    stage.conduct()

    stage.until(lambda: stage.rows()[0]["state"] == "failed", what="the short one's end")
    assert [(row["state"], row["exit_code"]) for row in stage.rows()] == [("failed", 7), ("running", None)]
    (stage.folder / "work" / "go").touch()
    stage.until(lambda: stage.rows()[1]["state"] == "succeeded", what="the long one's end")
    assert sorted(stage.lines()) == ["long", "short"]


def test_a_restart_of_the_machine_is_told(stage: Stage) -> None:
    stage.plan("echo ran >> ran", state="running", generation=1, native_id="an-earlier-boot:4242:1234")
    stage.plan("echo ran >> ran", state="submitting", generation=1, holder="an-earlier-boot:4242:1234")

    stage.conduct()

    stage.until(lambda: {row["state"] for row in stage.rows()} == {"failed"}, what="the ends")
    assert all("machine was restarted" in row["reason"] for row in stage.rows())
    assert stage.lines() == []


def test_own_secrets_stay_out_of_the_job(stage: Stage) -> None:
    stage.environment |= {"CONDUCTOR_SECRET_KEY": "s" * 60, "WANDB_API_KEY": "hidden", "CUDA_HOME": "/opt/cuda"}
    stage.execute("""update jobs_target set environment_allow = '["CUDA_HOME"]'""")
    stage.plan("env >> ran", environment={"SPECIES": "ribosome"}, cpus=3)
    stage.conduct()
    stage.until_state("succeeded")

    names = dict(line.split("=", 1) for line in stage.lines() if "=" in line)

    assert not {"CONDUCTOR_SECRET_KEY", "WANDB_API_KEY", "CONDUCTOR_DATA", "DJANGO_SETTINGS_MODULE"} & set(names)
    assert (names["SPECIES"], names["CUDA_HOME"], names["OMP_NUM_THREADS"]) == ("ribosome", "/opt/cuda", "3")


FAILURES: list[tuple[str, dict[str, str], str]] = [
    ("", {"work_dir": "/nowhere/at/all"}, "The work folder /nowhere/at/all is not there."),
    (
        "",
        {"script": "#!/opt/none/bin/perl\n"},
        "wants the interpreter /opt/none/bin/perl, which is not on",
    ),
    ("", {"stdout_path": "/proc/1/no.out"}, "/proc/1/no.out"),
    ("no-such-program", {}, "Exit code 127: a command of the script was not found."),
    ("kill -SEGV $$", {}, "Exit code 139: ended by signal 11 (SIGSEGV)."),
    ("exit 97", {}, "Exit code 97."),
    ("kill -KILL $PPID; sleep 20", {}, "guard was killed while the script was running"),
]


def test_what_fails_says_why(stage: Stage) -> None:
    stage.execute("update jobs_target set slots = 10")
    for script, columns, _ in FAILURES:
        stage.plan(script, **columns)
    stage.conduct()

    stage.until(lambda: {row["state"] for row in stage.rows()} == {"failed"}, what="all fail")

    for row, (_, _, words) in zip(stage.rows(), FAILURES, strict=True):
        assert words in str(row["reason"])
        assert carriers(str(row["token"])) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="filling a disk needs a small one, and mounting one needs root")
def test_a_full_disk_is_waited_for(stage: Stage) -> None:
    small = stage.folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nr_inodes=2", "none", str(small)], check=True)
    try:
        stage.plan("echo ran >> ran", job_folder=f"{small}/jobs")
        stage.conduct()
        stage.until(lambda: "the disk is full" in stage.job()["reason"], what="words")
        assert stage.job()["state"] == "submitting"

        subprocess.run(["mount", "-o", "remount,nr_inodes=1000", str(small)], check=True)

        stage.until_state("succeeded")
        assert stage.lines() == ["ran"]
    finally:
        stage.close()
        subprocess.run(["umount", str(small)], check=True)


def test_a_target_whose_job_folder_is_moved_runs_nothing_twice(stage: Stage) -> None:
    stage.plan("echo ran >> ran; until [ -e go ]; do sleep 0.02; done")
    first = stage.conduct()
    stage.until(stage.lines, what="it runs")
    first.kill()
    stage.execute(f"update jobs_target set job_folder = '{stage.folder}/work/elsewhere'")  # noqa: S608

    stage.conduct()

    time.sleep(1.5)
    (stage.folder / "work" / "go").touch()
    stage.until_state("succeeded")
    assert stage.lines() == ["ran"]


def test_a_second_conduct_on_the_same_folder_is_refused(stage: Stage) -> None:
    first = stage.conduct()
    stage.until(lambda: "conduct runs" in stage.conduct_log(), what="the first")

    assert stage.conduct().wait(LONG_S) == 1
    assert f"Another conduct (pid {first.pid}) runs on" in stage.conduct_log()


def test_two_conducts_with_their_own_folders_run_each_job_once(stage: Stage) -> None:
    stage.execute("update jobs_target set slots = 4")
    stage.plan("echo $CONDUCTOR_TOKEN >> ran", count=20)
    stage.conduct()
    stage.conduct(data="other")

    stage.until(lambda: {row["state"] for row in stage.rows()} == {"succeeded"}, what="all")

    assert sorted(stage.lines()) == sorted(str(row["token"]) for row in stage.rows())
    assert stage.events().count("job.succeed") == 20


@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="only SQLite is locked as a whole")
def test_a_locked_database_is_waited_for(stage: Stage) -> None:
    stage.environment["CONDUCTOR_SQLITE_TIMEOUT_S"] = "1"
    stage.plan("echo ran >> ran")
    with stage.connection() as connection:
        connection.execute("begin immediate")
        conduct = stage.conduct()
        stage.until(lambda: "the database does not answer (database is locked)" in stage.conduct_log(), what="words")
        assert conduct.poll() is None
    stage.until_state("succeeded")
    assert stage.lines() == ["ran"]


def test_environment_lines_run_before_the_script(stage: Stage) -> None:
    stage.execute("update jobs_target set environment_lines = 'export WARP_DIR=\"/opt/warp 2\"'")
    stage.plan('echo "$WARP_DIR" >> ran; exit 97')
    stage.conduct()

    assert stage.until_state("failed")["exit_code"] == 97
    assert stage.lines() == ["/opt/warp 2"]


def test_what_a_script_leaves_behind_ends_with_it(stage: Stage) -> None:
    stage.plan("sleep 300 & echo $! >> ran; setsid bash -c 'echo $$ >> ran; exec sleep 301' & sleep 0.5")
    stage.conduct()
    row = stage.until_state("succeeded")
    assert len(stage.lines()) == 2

    stage.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in stage.lines()), what="gone")
    assert carriers(str(row["token"])) == []


def test_a_script_that_prints_without_end_is_stopped(stage: Stage) -> None:
    stage.environment["CONDUCTOR_JOB_LOG_LIMIT_MIB"] = "3"
    stage.plan("echo ran >> ran; while :; do head -c 500000 /dev/zero; sleep 0.05; done")
    stage.conduct()

    row = stage.until_state("failed")

    assert "logs have grown beyond 3 MiB" in row["reason"]
    assert carriers(str(row["token"])) == []
