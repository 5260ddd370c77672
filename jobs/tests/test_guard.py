"""The guard's text, and the executor's rules for who may claim."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import pytest

from jobs import processes
from jobs.environment import after_lines
from jobs.executors import Order, Seen, Sighting, local
from jobs.executors.guard import guard_text
from jobs.executors.local import LocalExecutor, reap_children
from record.errors import AdapterError

EXECUTOR = LocalExecutor()
SHELLS = ["sh", "bash"]  # /bin/sh is the one or the other, by the distribution
HUNDREDTH = timedelta(seconds=0.02)  # the clock that the guard reads shows hundredths


def order(folder: Path, *, script: str = "#!/bin/bash\necho ran >> ran\n", generation: int = 1) -> Order:
    token = f"t{crc32(bytes(folder))}"  # this test's alone: what is done to it is done on the whole machine
    return Order(
        token=token,
        generation=generation,
        script=script,
        script_name="work.sh",
        work_dir=str(folder),
        job_folder=f"{folder}/jobs",
        environment={"PATH": "/usr/bin:/bin", "CONDUCTOR_TOKEN": token},
        environment_lines="",
        stdout_path=f"{folder}/out",
        stderr_path=f"{folder}/err",
    )


def wait_for(seen: Seen, wanted: Order) -> Sighting:
    deadline = time.monotonic() + 5
    while EXECUTOR.look(wanted).seen != seen and time.monotonic() < deadline:
        time.sleep(0.01)
    sighting = EXECUTOR.look(wanted)
    assert sighting.seen == seen
    reap_children()
    return sighting


def dead_identity() -> str:
    child = subprocess.Popen(["true"])
    identity = processes.identity(child.pid)
    child.wait()
    return identity


def test_names_with_quotes_and_spaces_are_kept() -> None:
    text = guard_text(folder="/a b/it's", claim="owner", command=["/bin/bash", "/a b/s$x.sh"])
    for shell in SHELLS:
        assert subprocess.run([shell, "-n"], input=text, text=True).returncode == 0
    assert "folder='/a b/it'\"'\"'s'" in text
    assert "exec /bin/bash '/a b/s$x.sh'" in text


def test_environment_lines_go_before_the_script() -> None:
    assert after_lines(" \n", ["/bin/sh", "/s"]) == ["/bin/sh", "/s"]
    command = after_lines("X=1\r\nexport X", ["/bin/echo", "$X"])
    assert subprocess.run(command, capture_output=True, text=True).stdout == "$X\n"


def test_the_guard_tells_when_the_script_ended(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    EXECUTOR.submit(order(tmp_path))
    ended_at = wait_for(Seen.ENDED, order(tmp_path)).ended_at
    assert ended_at is not None and before - HUNDREDTH <= ended_at <= datetime.now(UTC)


def test_an_end_of_before_a_restart_or_by_an_older_guard_has_its_time(tmp_path: Path) -> None:
    folder = Path(order(tmp_path).folder)
    folder.mkdir(parents=True)
    of_another_boot = "b:12:34"
    (folder / "owner").write_text(f"{of_another_boot}\n")
    exit_file = folder / f"exit.{of_another_boot}"
    exit_file.write_text("3 up 99999.25\n")
    os.utime(exit_file, (1_764_526_000, 1_764_526_000))
    restarted = EXECUTOR.look(order(tmp_path))
    assert (restarted.exit_code, restarted.ended_at) == (3, datetime.fromtimestamp(1_764_526_000, UTC))

    exit_file.write_text("4 1764526001.5\n")
    older = EXECUTOR.look(order(tmp_path))
    assert (older.exit_code, older.ended_at) == (4, datetime.fromtimestamp(1_764_526_001.5, UTC))


@pytest.mark.parametrize("torn", [b"", b"\0\0\0", b"0 17645", b"0 1764526000.25", b"0 up 12", b"0 up\n", b"0\n"])
def test_a_torn_exit_file_is_none(tmp_path: Path, torn: bytes) -> None:
    dead, folder = dead_identity(), Path(order(tmp_path).folder)
    folder.mkdir(parents=True)
    (folder / "owner").write_text(f"{dead}\n")
    (folder / f"started.{dead}").touch()
    (folder / f"exit.{dead}").write_bytes(torn)
    assert EXECUTOR.look(order(tmp_path)).seen == Seen.DIED


def test_a_second_submission_answers_the_first(tmp_path: Path) -> None:
    first = EXECUTOR.submit(order(tmp_path))
    wait_for(Seen.ENDED, order(tmp_path))

    assert EXECUTOR.submit(order(tmp_path, generation=2)) == first
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_an_heir_runs_what_its_forerunner_never_began(tmp_path: Path) -> None:
    dead = dead_identity()
    folder = Path(order(tmp_path).folder)
    folder.mkdir(parents=True)
    (folder / "owner").write_text(f"{dead}\n")
    assert EXECUTOR.look(order(tmp_path)).seen == Seen.NEVER_BEGAN

    EXECUTOR.submit(order(tmp_path))

    wait_for(Seen.ENDED, order(tmp_path))
    assert (folder / f"heir.{dead}").exists()
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert EXECUTOR.look(order(tmp_path)).claims == 2


def test_what_began_is_never_inherited(tmp_path: Path) -> None:
    dead = dead_identity()
    folder = Path(order(tmp_path).folder)
    folder.mkdir(parents=True)
    (folder / "owner").write_text(f"{dead}\n")
    (folder / f"started.{dead}").touch()

    assert EXECUTOR.look(order(tmp_path)).seen == Seen.DIED
    assert EXECUTOR.submit(order(tmp_path)) == dead
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("forerunner", [False, True])
def test_a_guard_that_comes_late_finds_it_closed(tmp_path: Path, forerunner: bool) -> None:
    wanted = order(tmp_path)
    folder = Path(wanted.folder)
    folder.mkdir(parents=True)
    claim = "owner"
    if forerunner:
        (folder / "owner").write_text(f"{(dead := dead_identity())}\n")
        claim = f"heir.{dead}"
    late = folder / "guard.sh"
    late.write_text(guard_text(folder=str(folder), claim=claim, command=["/bin/touch", str(tmp_path / "ran")]))

    assert EXECUTOR.close(wanted).seen == Seen.CLOSED

    for shell in SHELLS:
        assert subprocess.run([shell, str(late)]).returncode == 97
    assert not (tmp_path / "ran").exists()
    assert EXECUTOR.close(wanted).seen == Seen.CLOSED


def test_the_same_generation_is_handed_over_once(tmp_path: Path) -> None:
    wanted = order(tmp_path)
    Path(f"{wanted.folder}/submit.1").mkdir(parents=True)
    with pytest.raises(AdapterError, match="handed over before") as caught:
        EXECUTOR.submit(wanted)
    assert caught.value.transient


def test_a_signal_reaches_the_script_and_its_answer_is_kept(tmp_path: Path) -> None:
    script = "#!/bin/bash\ntrap 'exit 5' TERM\ntouch up\nwhile :; do sleep 0.02; done\n"
    native_id = EXECUTOR.submit(order(tmp_path, script=script))
    while not (tmp_path / "up").exists():
        time.sleep(0.01)

    EXECUTOR.ask_to_end(order(tmp_path), native_id)

    wait_for(Seen.ENDED, order(tmp_path))
    assert EXECUTOR.look(order(tmp_path)).exit_code == 5
    assert EXECUTOR.end(order(tmp_path), native_id) == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_signal_is_passed_on_by_each_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str, number: signal.Signals
) -> None:
    monkeypatch.setattr(local, "SHELL", shutil.which(shell))
    script = "#!/bin/bash\ntrap 'sleep 0.05; exit 7' TERM\ntouch up\nwhile :; do sleep 0.02; done\n"
    native_id = EXECUTOR.submit(order(tmp_path, script=script))
    while not (tmp_path / "up").exists():
        time.sleep(0.01)

    assert processes.send(native_id, number)

    assert wait_for(Seen.ENDED, order(tmp_path)).exit_code == 7


def tools(folder: Path, **texts: str) -> str:
    """A PATH with `mkdir`, which the guard's faults use, and these programs, and nothing else."""
    (folder / "tools").mkdir()
    (folder / "tools" / "mkdir").symlink_to(shutil.which("mkdir") or "")
    for name, text in texts.items():
        (folder / "tools" / name).write_text(f"#!/bin/sh\n{text}")
        (folder / "tools" / name).chmod(0o755)
    return str(folder / "tools")


def stopped_before_its_claim(wanted: Order) -> Order:
    """The same order, whose guard stops before it looks at the claim until it gets SIGCONT."""
    return replace(wanted, environment=wanted.environment | {"CONDUCTOR_GUARD_FAULT": "before_owner:STOP"})


def go_on(native_id: str) -> None:
    deadline = time.monotonic() + 5
    pid = processes.split_identity(native_id)[1]
    while (stat := processes.read_stat(pid)) and stat.state != "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    processes.send(native_id, signal.SIGCONT)


def test_a_guard_whose_claim_was_given_needs_no_program(tmp_path: Path) -> None:
    wanted = stopped_before_its_claim(order(tmp_path, script="#!/bin/sh\necho ran >> ran\n"))
    wanted.environment["PATH"] = tools(tmp_path)
    native_id = EXECUTOR.submit(wanted)
    assert EXECUTOR.look(wanted) == Sighting(Seen.ALIVE, native_id, claims=1)

    go_on(native_id)

    assert wait_for(Seen.ENDED, wanted).exit_code == 0
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert not (Path(wanted.folder) / f"owner.{native_id}").exists()


def test_a_guard_claims_for_itself_where_nobody_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EXECUTOR, "_claim_for", lambda *_: None)
    native_id = EXECUTOR.submit(order(tmp_path))
    assert wait_for(Seen.ENDED, order(tmp_path)).native_id == native_id
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("again", ["", "exit 1"], ids=["at the first link", "when the link fails otherwise"])
def test_a_claim_that_is_given_while_the_guard_makes_its_own_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    monkeypatch.setattr(EXECUTOR, "_claim_for", lambda *_: None)
    link = shutil.which("ln")
    late = f'{link} "$1" "$1.given.too" && {link} "$1.given.too" "$2"\n{again or f"""exec {link} "$@" """}\n'
    wanted = order(tmp_path, script="#!/bin/sh\necho ran >> ran\n")
    wanted.environment["PATH"] = tools(tmp_path, ln=late)

    native_id = EXECUTOR.submit(wanted)

    assert wait_for(Seen.ENDED, wanted).native_id == native_id
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_claim_that_is_given_late_changes_nothing(tmp_path: Path) -> None:
    wanted = order(tmp_path)
    native_id = EXECUTOR.submit(wanted)
    wait_for(Seen.ENDED, wanted)
    late = dead_identity()

    EXECUTOR._claim_for(wanted, late, "owner")

    assert (Path(wanted.folder) / "owner").read_text() == f"{native_id}\n"
    assert EXECUTOR.look(wanted).seen == Seen.ENDED


def test_a_claim_given_to_a_guard_that_died_is_inherited(tmp_path: Path) -> None:
    wanted = order(tmp_path)
    Path(wanted.folder).mkdir(parents=True)
    EXECUTOR._claim_for(wanted, dead := dead_identity(), "owner")
    assert EXECUTOR.look(wanted) == Sighting(Seen.NEVER_BEGAN, dead, claims=1)

    EXECUTOR.submit(order(tmp_path, generation=2))

    wait_for(Seen.ENDED, wanted)
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_what_cannot_be_written_whole_is_not_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = order(tmp_path)
    Path(wanted.folder).mkdir(parents=True)
    monkeypatch.setattr(local.os, "write", lambda descriptor, data: 1)  # the disk is full after the first byte

    EXECUTOR._claim_for(wanted, dead_identity(), "owner")

    assert EXECUTOR.look(wanted).seen == Seen.NOTHING
