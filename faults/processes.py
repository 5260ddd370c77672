"""Processes of trials, as /proc shows them: found by what they carry, killed and let go on by their pids."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from faults.limits import Limits
from jobs.processes import read_stat


def resume(limits: Limits, ours: Callable[[int], bool]) -> None:
    """Let stopped processes go on, until none is left."""

    def none_left() -> bool:
        stopped = [pid for pid in all_pids() if (stat := read_stat(pid)) and stat.state in "Tt" and ours(pid)]
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        return not stopped

    limits.until(none_left, what="nobody is stopped")


def kill_jobs(tokens: list[str]) -> None:
    """kill -9 of every process of these jobs: guards, scripts, and what those started."""
    marks = [f"CONDUCTOR_TOKEN={token}".encode() for token in tokens]
    for pid in all_pids():
        if any(carries(pid, mark) for mark in marks):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def carries(pid: int, mark: bytes) -> bool:
    """Whether a process has those words in its command or its environment."""
    for name in ("cmdline", "environ"):
        try:
            if mark in Path(f"/proc/{pid}/{name}").read_bytes():
                return True
        except OSError:
            continue
    return False


def end_all(mark: bytes) -> None:
    """kill -9 of every other process that has those words in its command or environment."""
    for pid in all_pids():
        if pid != os.getpid() and carries(pid, mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
