"""Processor time and memory of processes and all that stem from them, as /proc tells them."""

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from jobs.processes import TICKS_PER_S, memory_bytes


@dataclass(frozen=True)
class Usage:
    """CPU-seconds of the living processes and of their children that have ended, and their memory (PSS) in MB."""

    cpu_s: float
    pss_mb: float
    processes: int


def usage_of(roots: list[int]) -> Usage:
    """What the processes `roots` and their descendants have used up to now."""
    pids = _with_descendants(roots)
    return Usage(sum(map(_cpu_s, pids)), sum(map(memory_bytes, pids)) / 1e6, len(pids))


def _with_descendants(roots: list[int]) -> list[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _fields(int(name))):
            children[int(fields[1])].append(int(name))
    found, waiting = [], list(roots)
    while waiting:
        found.append(waiting.pop())
        waiting += children[found[-1]]
    return found


def _cpu_s(pid: int) -> float:
    """User and system time, its own (utime, stime) and that of children that it has waited for (cutime, cstime)."""
    fields = _fields(pid)
    return sum(map(int, fields[11:15])) / TICKS_PER_S if fields else 0.0


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on (field 3 of proc_pid_stat(5)); none where it has gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()
