"""Processes are known by boot, pid and start time."""

import os
import signal
import subprocess
import time
from itertools import repeat

import pytest

from jobs import processes


def test_reads_a_stat_line_with_brackets_and_spaces_in_the_name() -> None:
    line = "42 (a) b (c) S 1 42 40 0 -1 4194304 " + " ".join(["0"] * 12) + " 987654 1000 25 " + " ".join(["0"] * 20)
    stat = processes.parse_stat(line)
    assert (stat.pid, stat.state, stat.session, stat.start) == (42, "S", 40, 987654)
    assert stat.rss_bytes == 25 * processes.PAGE_BYTES


def test_identities() -> None:
    own = processes.own_identity()
    boot, pid, start = processes.split_identity(own)
    assert (boot, pid) == (processes.boot_id(), os.getpid())
    assert processes.is_alive(own)
    assert not processes.is_alive(f"{boot}:{pid}:{start + 1}")  # the number has come round again
    assert not processes.is_alive(f"another-boot:{pid}:{start}")
    assert processes.open_pidfd(f"{boot}:{pid}:{start + 1}") is None
    assert not processes.send(f"{boot}:{pid}:{start + 1}", signal.SIGKILL)
    for text in ("", "x", "a:b:c", "a:1"):
        assert not processes.is_alive(text)


def test_zombies_are_not_alive_and_stopped_ones_are() -> None:
    child = subprocess.Popen(["sleep", "30"])
    identity = processes.identity(child.pid)
    child.send_signal(signal.SIGSTOP)
    assert processes.is_alive(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.is_alive(identity)
    child.wait()


@pytest.mark.parametrize("known", ["nothing of its birth", "its birth", "a birth since when numbers came round"])
def test_a_family_is_found_and_ended_without_its_leader(known: str) -> None:
    before = processes.forks()
    environment = os.environ | {"MARK": "this-one"}
    leader = subprocess.Popen(
        ["bash", "-c", "sleep 31 & setsid sleep 32 & wait"], env=environment, start_new_session=True
    )
    identity = processes.identity(leader.pid)
    if known != "nothing of its birth":
        processes.remember_birth(identity, before if known == "its birth" else before - processes._highest_pid())
    deadline = time.monotonic() + 5
    while len(processes.family(identity, "MARK=this-one")) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(processes.family(identity, "MARK=this-one")) == 3
    leader.kill()
    leader.wait()

    assert len(processes.family(identity, "MARK=this-one")) == 2
    assert processes.family(identity, "MARK=another") == []  # a session's number alone proves nothing
    assert processes.end_family(identity, "MARK=this-one") == []
    assert processes.family(identity, "MARK=this-one") == []


def test_who_shows_no_environment_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "33"], env=os.environ | {"MARK": "hidden"})
    seen, carries = [], processes._carries

    def hidden_at_first(stat: processes.Stat, entry: str) -> bool | None:
        if stat.pid != child.pid:
            return carries(stat, entry)
        seen.append(carries(stat, entry) if seen else None)  # as while execve replaces it
        return seen[-1]

    monkeypatch.setattr(processes, "_carries", hidden_at_first)
    # Of another session than the leader, as what has left its job's: only the mark shows whose it is.
    assert processes.end_family(_ended_before(child.pid), "MARK=hidden") == []
    assert child.wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("begun", [0, 1])
def test_a_look_while_processes_begin_is_not_the_last(monkeypatch: pytest.MonkeyPatch, begun: int) -> None:
    counts, looks, look = iter(range(1000, 9000, begun)) if begun else repeat(1000), [], processes.look_for_family
    monkeypatch.setattr(processes, "forks", lambda: next(counts))
    monkeypatch.setattr(processes, "_carries", lambda *_: False)
    monkeypatch.setattr(processes, "look_for_family", lambda *given: looks.append(look(*given)) or looks[-1])
    assert processes.end_family(_ended_before(os.getpid()), "MARK=of nobody") == []
    assert [each.sure for each in looks] == ([False, False] if begun else [True])


def _ended_before(pid: int) -> str:
    """The identity of a leader that has gone, and that began when process `pid` did or just before."""
    boot, _, start = processes.split_identity(processes.identity(pid))
    return f"{boot}:{processes._highest_pid() - 1}:{start}"


def test_signals_on_kernels_without_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "has_pidfds", lambda: False)
    child = subprocess.Popen(["sleep", "30"])
    boot, pid, start = processes.split_identity(processes.identity(child.pid))
    assert processes.open_pidfd(f"{boot}:{pid}:{start}") is None
    assert not processes.send(f"{boot}:{pid}:{start + 1}", signal.SIGKILL)
    assert processes.send(f"{boot}:{pid}:{start}", signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_memory_is_shared_fairly() -> None:
    assert 0 < processes.memory_bytes(os.getpid()) <= processes.read_stat(os.getpid()).rss_bytes * 1.1
    assert processes.memory_bytes(2**22) == 0


def test_only_numbers_that_can_be_younger_are_looked_at() -> None:
    before = processes.forks()
    child = subprocess.Popen(["sleep", "30"])
    identity = processes.identity(child.pid)
    assert before > 0 and 1 in processes._pids_since(identity)

    processes.remember_birth(identity, before)
    assert child.pid in processes._pids_since(identity) and 1 not in processes._pids_since(identity)

    processes.remember_birth(identity, before - processes._highest_pid())
    assert 1 in processes._pids_since(identity), "numbers may have come round since"
    assert processes.end_family(identity, "NONE=1") == []
    assert identity not in processes._forks_before
    child.kill()
    child.wait()
