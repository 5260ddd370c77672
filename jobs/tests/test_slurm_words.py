"""SLURM's tables, builders and parsers, on what a real SLURM 22.05 printed."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import states as our_states
from jobs.executors.slurm import parse, scripts
from jobs.executors.slurm.endings import ending_of, is_second_start, never_launched
from jobs.executors.slurm.errors import Refusal, own_words, refusal_of
from jobs.executors.slurm.guard import batch_text, sbatch_lines
from jobs.executors.slurm.parse import Row, Status, status_of
from jobs.executors.slurm.reasons import waiting_words
from jobs.executors.slurm.scripts import TokenFolder
from jobs.executors.slurm.site import Site, SlurmOrder, job_name
from jobs.executors.slurm.states import STATES, Standing, meaning_of
from record.errors import AdapterError

QUEUE = """\
1|1|N/A|FAILED|NonZeroExitCode|2026-11-30T17:45:42|2026-11-30T17:45:43|2026-11-30T17:45:43|wrap
4|4|3-6%2|PENDING|JobArrayTaskLimit|2026-11-30T17:45:45|N/A|N/A|wrap
5|4|1|RUNNING|None|2026-11-30T17:45:45|2026-11-30T17:45:46|2026-11-30T17:50:46|wrap
9|9|N/A|FAILED|BadConstraints|2026-11-30T17:45:46|2026-11-30T17:45:46|2026-11-30T17:45:46|a|b
Maintenance on Monday!
"""
ACCOUNTS = """\
1|1|COMPLETED|0:0|2026-11-30T17:45:02|2026-11-30T17:45:04|2026-11-30T17:45:05|align-j1x
2|2|CANCELLED by 1000|0:15|2026-11-30T17:45:02|2026-11-30T17:45:04|2026-11-30T17:45:05|align-j2x
7_1|8|FAILED|3:0|2026-11-30T17:45:02|2026-11-30T17:45:04|2026-11-30T17:45:05|array
7_[2-4]|7|PENDING|0:0|2026-11-30T17:45:02|Unknown|Unknown|array
"""
SHOWN = (
    "JobId=1 JobName=wrap UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=1 JobState=FAILED "
    "Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 ExitCode=1:9 RunTime=00:00:00 "
    "SubmitTime=2026-11-30T17:45:42 StartTime=2026-11-30T17:45:43 EndTime=2026-11-30T17:45:43 NodeList=n1 \n"
)
NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)


def order(**given: Any) -> SlurmOrder:
    wanted = {
        "token": "j1x", "generation": 2, "script": "#!/bin/bash -l\n#SBATCH -t 5\necho hi\n", "script_name": "a.slurm",
        "work_dir": "/w", "job_folder": "/j", "environment": {}, "environment_lines": "", "stdout_path": "/w/o.j1x",
        "stderr_path": "/w/e.j1x", "job_name": "a-j1x", "time_limit_s": 61,
    }  # fmt: skip
    return SlurmOrder(**(wanted | given))


def test_rows_of_the_queue() -> None:
    rows = parse.parse_queue(QUEUE)
    assert [(row.job_id, row.task, row.state, row.name) for row in rows] == [
        ("1", "", "FAILED", "wrap"), ("4", "3-6%2", "PENDING", "wrap"), ("4", "1", "RUNNING", "wrap"),
        ("9", "", "FAILED", "a|b"),
    ]  # fmt: skip
    assert rows[0].submitted_at == datetime(2026, 11, 30, 17, 45, 42, tzinfo=UTC)
    assert rows[1].started_at is None


def test_rows_of_the_accounts() -> None:
    rows = parse.parse_accounting(ACCOUNTS)
    assert [(row.job_id, row.task, row.meaning.event, row.exit_code, row.exit_signal) for row in rows] == [
        ("1", "", "succeed", 0, 0), ("2", "", "cancel", 0, 15), ("7", "1", "fail", 3, 0), ("7", "2-4", "", 0, 0),
    ]  # fmt: skip
    assert status_of([rows[1]]).reason == "It was cancelled at the cluster by the user with the number 1000."


def test_what_the_controller_shows_of_one_job() -> None:
    (row,) = parse.parse_show_job(SHOWN)
    assert (row.state, row.exit_code, row.exit_signal, row.name) == ("FAILED", 1, 9, "wrap")


@pytest.mark.parametrize(
    ("printed", "native_id"),
    [
        ("123\n", "123"),
        ("123;lab\n", "123;lab"),
        ("Welcome!\n123\n", "123"),
        ("123\n bye\n", "123"),
        ("", ""),
        ("x", ""),
    ],
)
def test_ids_that_sbatch_prints(printed: str, native_id: str) -> None:
    assert parse.parse_submission(printed) == native_id


def test_every_end_is_an_event_of_our_table() -> None:
    events = {meaning.event for meaning in STATES.values() if meaning.standing == Standing.ENDED}
    assert events <= set(our_states.JOB.events())
    assert all(meaning.event == "" for meaning in STATES.values() if meaning.standing != Standing.ENDED)
    assert set(parse.WORST_FIRST) == events


@pytest.mark.parametrize("text", ["", "NEW_STATE_OF_2030", "???"])
def test_unknown_states_are_kept(text: str) -> None:
    meaning = meaning_of(text)
    assert (meaning.standing, meaning.known) == (Standing.UNSETTLED, False)
    assert status_of([Row("1", "", "n", text)]).meaning.standing == Standing.UNSETTLED


def test_states_as_they_are_printed() -> None:
    assert meaning_of("CANCELLED+").event == meaning_of("CANCELLED by 1000").event == "cancel"
    assert meaning_of("PREEMPTED").provisional
    assert not meaning_of("TIMEOUT").provisional


def test_an_array_is_as_far_as_its_tasks() -> None:
    done, failed = Row("7", "1", "n", "COMPLETED"), Row("7", "2", "n", "TIMEOUT")
    assert status_of([done, Row("7", "3", "n", "RUNNING")]).meaning.standing == Standing.RUNNING
    assert status_of([done, Row("7", "3-9", "n", "PENDING", "Priority")]).meaning.standing == Standing.WAITING
    assert status_of([done, failed]).meaning.event == "time_out"
    assert status_of([done, failed], tasks=3).meaning.standing == Standing.UNSETTLED


@pytest.mark.parametrize(
    ("spec", "size"),
    [("0-15", 16), ("1,3,5-7", 5), ("0-15:4%2", 4), ("4", 1), ("", None), ("a-b", None), ("5-1", None)],
)
def test_sizes_of_arrays(spec: str, size: int | None) -> None:
    assert parse.array_size(spec) == size


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", Refusal.PERMANENT),
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            Refusal.PERMANENT,
        ),
        ("Batch job submission failed: Invalid account or account/partition combination specified", Refusal.PERMANENT),
        ("sbatch: error: Invalid generic resource (gres) specification", Refusal.PERMANENT),
        ("sbatch: error: Memory specification can not be satisfied", Refusal.PERMANENT),
        ("sbatch: unrecognized option '--bogus'", Refusal.PERMANENT),
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", Refusal.BUSY),
        ("Socket timed out on send/recv operation", Refusal.AMBIGUOUS),
        ("Unable to contact slurm controller (connect failure)", Refusal.AMBIGUOUS),
        ("Slurm temporarily unable to accept job, sleeping and retrying", Refusal.AMBIGUOUS),
        ("something that nobody has ever read", Refusal.AMBIGUOUS),
        ("", Refusal.AMBIGUOUS),
    ],
)
def test_refusals(said: str, refusal: Refusal) -> None:
    assert refusal_of(said) == refusal


def test_own_words_are_plain() -> None:
    said = "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed: Invalid\n"
    assert own_words(said) == "invalid partition specified: nope; Batch job submission failed: Invalid"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Priority", "It waits in the queue: jobs of higher priority go first (Priority)."),
        ("None", ""),
        ("AssocMaxJobsLimit", "as the account allows (AssocMaxJobsLimit)."),
        (
            "QOSMaxCpuPerJobLimit",
            "it alone asks for more (QOSMaxCpuPerJobLimit). Somebody has to do something about it.",
        ),
        ("DependencyNeverSatisfied", "it will never start (DependencyNeverSatisfied)."),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "is not available (down, reserved or in maintenance)"),
        ("(launch failed requeued held)", "could not be launched and is held"),
        ("SomethingNew", "It waits in the queue (SomethingNew)."),
    ],
)
def test_reasons(reason: str, words: str) -> None:
    assert words in waiting_words(reason)


def test_the_command_that_submits() -> None:
    argv = scripts.sbatch_argv(order(), Site(partition="gpu", gres="gpu:2", cluster="lab"))
    assert argv == [
        "sbatch", "--parsable", "--job-name=a-j1x", "--export=ALL", "--chdir=/w", "--kill-on-invalid-dep=yes",
        "--no-requeue", "--output=/w/o.j1x", "--error=/w/e.j1x", "--time=0-00:02:00", "--clusters=lab",
        "--partition=gpu", "/j/j1x/batch.2.sh",
    ]  # fmt: skip
    own = order(script="#!/bin/bash\n#SBATCH -o logs/%j.o --gres=gpu:1\ntrue\n", requeue=True)
    argv = scripts.sbatch_argv(own, Site(gres="gpu:2", commands_folder="/opt/slurm/bin/"))
    assert argv[0] == "/opt/slurm/bin/sbatch"
    assert {"--gres=gpu:2", "--requeue", "--open-mode=append"} <= set(argv)
    assert not any(word.startswith(("--output", "--error")) for word in argv)


def test_names_of_logs() -> None:
    own = order(script="#SBATCH --output=logs/%x_%j.out\n#SBATCH --error=/e/%A.err\n")
    assert scripts.log_paths(own, "12;lab") == ("/w/logs/a-j1x_12.out", "/e/12.err")
    assert scripts.log_folders(own) == ["/w/logs", "/e"]
    assert scripts.log_paths(order(), "12") == ("/w/o.j1x", "/w/e.j1x")
    array = order(script="#SBATCH -a 3-5\n")
    assert scripts.log_paths(array, "12") == ("/w/o.j1x.3", "/w/e.j1x.3")
    with pytest.raises(AdapterError, match="can't be made before"):
        scripts.log_folders(order(script="#SBATCH -o logs/%j/out\n"))


def test_the_lines_that_are_taken_along() -> None:
    script = "#!/bin/bash\n#SBATCH --mem=4G\n# a word\n#SBATCH --wait\n\n#SBATCH -W\ntrue\n#SBATCH --late\n"
    assert sbatch_lines(script) == ["#SBATCH --mem=4G"]


def test_the_text_that_is_submitted_is_bash() -> None:
    text = batch_text(order(job_folder="/a b/it's", environment_lines="module load x\r\n"))
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    assert text.startswith("#!/bin/bash\n#SBATCH -t 5\n")
    assert "mark=$job.2\n" in text
    for argv in (scripts.hand_over_argv(order(), Site()), scripts.look_argv(["/a"]), scripts.close_argv("/a")):
        assert subprocess.run(["bash", "-n", "-c", argv[2]]).returncode == 0


def start(given: SlurmOrder, **environment: str) -> int:
    """Run what was submitted, as a node would for job 5; its exit code."""
    Path(given.folder, "script").mkdir(parents=True, exist_ok=True)
    Path(given.folder, "script", given.script_name).write_text(given.script)
    return subprocess.run(
        ["bash"], input=batch_text(given), text=True, env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "5"} | environment
    ).returncode


def test_what_the_controller_starts_again_under_the_same_id_does_not_run_again(tmp_path: Path) -> None:
    given = order(job_folder=str(tmp_path), script=f"#!/bin/bash\necho ran >> {tmp_path}/ran\nexit 3\n")

    assert start(given) == 3
    assert start(given) == 97  # a controller that lost its memory
    assert start(given, SLURM_RESTART_COUNT="1") == 97  # it is not to be started anew

    assert (tmp_path / "ran").read_text() == "ran\n"


def test_what_may_be_started_anew_runs_once_a_start(tmp_path: Path) -> None:
    given = order(job_folder=str(tmp_path), script=f"#!/bin/bash\necho ran >> {tmp_path}/ran\n", requeue=True)

    assert [start(given), start(given), start(given, SLURM_RESTART_COUNT="1")] == [0, 97, 0]

    assert (tmp_path / "ran").read_text() == "ran\nran\n"


def test_tasks_of_an_array_start_each_for_itself(tmp_path: Path) -> None:
    given = order(job_folder=str(tmp_path), script="#!/bin/bash\n")
    tasks = [{"SLURM_ARRAY_JOB_ID": "4", "SLURM_ARRAY_TASK_ID": number} for number in ("1", "2", "2")]
    assert [start(given, **task) for task in tasks] == [0, 0, 97]


def test_the_end_of_a_second_start_is_not_the_jobs() -> None:
    second = status_of([Row("5", "", "n", "FAILED", exit_code=97)])
    assert is_second_start(second, TokenFolder("/j/j1x", owner="5.1"), "5")
    assert not is_second_start(second, TokenFolder("/j/j1x", owner="5.1", exits={"5": (97, NOW)}), "5")
    assert not is_second_start(second, TokenFolder("/j/j1x", owner="6.1"), "5")


def test_token_folders(tmp_path: Path) -> None:
    folder = tmp_path / "j1x"
    (folder / "submit.1").mkdir(parents=True)
    (folder / "submit.2").mkdir()
    for name, text in {
        "id": "5", "owner": "5.1", "submit.1/code": "0", "submit.1/id": "5", "submit.2/code": "1",
        "submit.2/stderr": "sbatch: error: Invalid partition name specified\n", "started.5.0": "", "started.5.1": "",
        "exit.5.0": "143 1764500000", "streams.5.1": "/w/o\n/w/e",
    }.items():  # fmt: skip
        (folder / name).write_text(f"{text}\n")
    asked = [str(folder), f"{tmp_path}/gone"]
    done = subprocess.run(scripts.look_argv(asked), capture_output=True, text=True, check=True)

    _, found = scripts.parse_look(done.stdout)

    seen = found[str(folder)]
    assert (seen.native_id, seen.owner_id, seen.known_ids) == ("5", "5", ["5"])
    assert [(each.generation, each.code, each.native_id) for each in seen.attempts] == [(1, 0, "5"), (2, 1, "")]
    assert "Invalid partition" in seen.attempts[1].said
    assert seen.ends_of("5") == {}  # it was started again since
    assert seen.streams == {"5": ("/w/o", "/w/e")}
    assert found[f"{tmp_path}/gone"].absent
    (folder / "exit.5.1").write_text("0 1764500009\n")
    done = subprocess.run(scripts.look_argv(asked), capture_output=True, text=True, check=True)
    assert scripts.parse_look(done.stdout)[1][str(folder)].ends_of("5")[""][0] == 0


def test_a_job_folder_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    done = subprocess.run(scripts.look_argv([f"{tmp_path}/jobs/j1x"]), capture_output=True, text=True, check=True)
    folder = scripts.parse_look(done.stdout)[1][f"{tmp_path}/jobs/j1x"]
    assert (folder.unreachable, folder.absent, folder.job_folder) == (True, False, f"{tmp_path}/jobs")


@pytest.mark.parametrize(
    ("state", "exits", "tail", "stopping", "event", "words"),
    [
        ("COMPLETED", {"5": 0}, "", "", "succeed", ""),
        ("COMPLETED", {}, "", "", "succeed", ""),
        ("FAILED", {"5": 3}, "", "", "fail", "Exit code 3."),
        (None, {"5": 0}, "", "", "succeed", ""),
        (None, {"5": 127}, "", "", "fail", "Exit code 127"),
        (
            None,
            {"5": 143},
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT x DUE TO TIME LIMIT ***",
            "",
            "time_out",
            "",
        ),
        ("FAILED", {}, "slurmstepd-n1: error: Exceeded job memory limit\n", "", "run_out_of_memory", "Exceeded job"),
        (
            "FAILED",
            {},
            "slurmstepd: error: Detected 1 oom_kill event in StepId=5.",
            "",
            "run_out_of_memory",
            "oom_kill",
        ),
        ("TIMEOUT", {"5": 143}, "", "", "time_out", "It ran into its time limit."),
        ("CANCELLED", {"5": 143}, "", "Cancelled by A.", "cancel", "Cancelled by A."),
        ("FAILED", {"5": 143}, "", "Cancelled by A.", "cancel", "Cancelled by A."),
        ("FAILED", {"5": 2}, "", "Cancelled by A.", "fail", "Exit code 2."),
        ("CANCELLED", {"5": 0}, "", "", "succeed", ""),  # the controller forgot that it ran, and started it in vain
        ("CANCELLED", {"5": 7}, "", "", "fail", "Exit code 7."),
        ("CANCELLED", {"5": 0}, "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT x ***", "", "cancel", "cancelled at"),
        ("CANCELLED", {"5": 143}, "", "", "cancel", "cancelled at"),
        ("NODE_FAIL", {"5": 0}, "", "", "succeed", ""),
        ("FAILED", {"5": 0}, "", "", "succeed", ""),  # its guard was killed after it had written how the script ended
        ("COMPLETED", {"5": 0}, "", "Cancelled by A.", "succeed", ""),
    ],
)
def test_endings(state: str | None, exits: dict[str, int], tail: str, stopping: str, event: str, words: str) -> None:
    folder = TokenFolder("/j/j1x", owner="5.1", exits={unit: (code, NOW) for unit, code in exits.items()})
    status = status_of([Row("5", "", "n", state)]) if state else None
    ending = ending_of(job_id="5", status=status, folder=folder, tasks=None, stopping=stopping, log_tail=tail)
    assert ending is not None
    assert ending.event == event
    assert words in ending.reason


LAUNCH = NOW, NOW + timedelta(seconds=6)
LATER = NOW, NOW + timedelta(seconds=60)


@pytest.mark.parametrize(
    ("state", "owner", "shown", "words"),
    [
        ("TIMEOUT", "", None, "its time ran out"),
        ("TIMEOUT", "5.1", None, ""),
        ("DEADLINE", "", None, ""),
        ("CANCELLED", "", {"restarts": 1}, "could not launch it"),
        ("CANCELLED", "", {"nodes": "n1", "times": LAUNCH}, "could not launch it"),
        ("CANCELLED", "", {"nodes": "n1", "times": LATER}, ""),  # by somebody, while its nodes were made ready
        ("CANCELLED", "", {"times": LAUNCH}, ""),  # by somebody, while it waited
        ("CANCELLED", "", None, ""),
        ("CANCELLED", "closed", {"restarts": 1}, ""),
        ("FAILED", "", {"restarts": 1}, ""),
    ],
)
def test_what_was_never_launched(state: str, owner: str, shown: dict[str, Any] | None, words: str) -> None:
    def show() -> Status | None:
        if shown is None:
            return None
        started, ended = shown.get("times", (None, None))
        row = Row("5", "", "n", state, started_at=started, ended_at=ended)
        return status_of([replace(row, restarts=shown.get("restarts", 0), nodes=shown.get("nodes", ""))])

    said = never_launched(status_of([Row("5", "", "n", state)]), TokenFolder("/j/j1x", owner=owner), show=show)
    assert words in said and bool(said) == bool(words)


def test_what_can_not_be_concluded() -> None:
    folder = TokenFolder("/j/j1x", owner="5.1", exits={"5_1": (0, NOW)})
    running = status_of([Row("5", "", "n", "RUNNING")])
    for status, tasks in ((None, 3), (running, 3), (None, None)):
        given = {"job_id": "6" if tasks is None else "5", "status": status, "folder": folder, "tasks": tasks}
        assert ending_of(**given, stopping="", log_tail="") is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("phase", "name"), [("3.5_align", "3.5_align-t"), ("a b;c", "a_b_c-t"), ("...", "job-t")])
def test_names_of_jobs(phase: str, name: str) -> None:
    assert job_name(phase=phase, token="t") == name
