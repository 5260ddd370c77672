"""Processes as /proc shows them. A process is known by boot id, pid and start time, never by its pid alone.

An identity is the text `boot:pid:start`; `start` is in clock ticks since boot, as in field 22 of /proc/PID/stat.
"""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jobs.printed import whole

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PF_KTHREAD = 0x00200000  # of the kernel's include/linux/sched.h
STAT_BYTES = 4096  # a line of /proc/PID/stat has some 50 numbers


@dataclass(frozen=True)
class Stat:
    """One line of /proc/PID/stat: what we use of it. `rss_bytes` counts shared pages in full.

    `of_kernel`: it is a thread of the kernel itself, which runs no program.
    """

    pid: int
    state: str
    session: int
    start: int
    rss_bytes: int
    of_kernel: bool


@cache
def boot_id() -> str:
    """This boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def parse_stat(text: str) -> Stat:
    """Reads a line of /proc/PID/stat; the command's name may hold spaces and brackets."""
    pid = int(text.split(" ", 1)[0])
    fields = text[text.rindex(")") + 2 :].split()
    of_kernel = bool(int(fields[6]) & PF_KTHREAD)
    return Stat(pid, fields[0], int(fields[3]), int(fields[19]), int(fields[21]) * PAGE_BYTES, of_kernel)


def read_stat(pid: int) -> Stat | None:
    """What /proc says of `pid`; None where there is no such process."""
    try:
        return parse_stat(_read(f"/proc/{pid}/stat", STAT_BYTES).decode(errors="replace"))
    except (OSError, ValueError):
        return None


def _read(path: str, limit: int) -> bytes:
    """The first bytes of a file of /proc in one call: a tenth of what `open` costs, and all of them are looked at."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


def identity(pid: int) -> str:
    """`boot:pid:start` of a process; the start is 0 where there is none any more."""
    stat = read_stat(pid)
    return f"{boot_id()}:{pid}:{stat.start if stat else 0}"


def own_identity() -> str:
    return identity(os.getpid())


def split_identity(text: str) -> tuple[str, int, int]:
    """(boot, pid, start); ("", 0, 0) for anything else."""
    boot, _, rest = text.partition(":")
    pid, _, start = rest.partition(":")
    numbers = whole(pid), whole(start)
    return ("", 0, 0) if numbers[0] is None or numbers[1] is None else (boot, numbers[0], numbers[1])


def of_this_boot(text: str) -> bool:
    """Whether the machine has not been restarted since that process began."""
    return split_identity(text)[0] == boot_id()


def is_alive(text: str) -> bool:
    """Whether the process of that identity exists and is not a zombie. A stopped one is alive."""
    boot, pid, start = split_identity(text)
    stat = read_stat(pid) if boot == boot_id() else None
    return stat is not None and stat.start == start and stat.state not in "ZX"


def now_s() -> float:
    """Seconds since boot, by the clock that runs on through suspends and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def ago_s(uptime_s: float) -> float:
    """Seconds since /proc/uptime said `uptime_s` (since this boot), as shells read it."""
    return float(Path("/proc/uptime").read_text().split()[0]) - uptime_s


def age_s(text: str) -> float:
    """Seconds since that process of this boot started."""
    return now_s() - split_identity(text)[2] / TICKS_PER_S


@cache
def has_pidfds() -> bool:
    """Whether this kernel (5.3 and later) gives out pidfds. Without them ends are heard of at the next tick only."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return False
    return True


def open_pidfd(text: str) -> int | None:
    """A pidfd of the process of that identity, or None where it has gone. The caller closes it."""
    _, pid, start = split_identity(text)
    if not pid or not of_this_boot(text) or not has_pidfds():
        return None
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    stat = read_stat(pid)  # after the open: the descriptor can't come to mean another process
    if stat is None or stat.start != start:
        os.close(descriptor)
        return None
    return descriptor


def send(text: str, number: int) -> bool:
    """Send a signal to exactly that process; False where it has gone or is not ours to signal."""
    if not has_pidfds():
        return _send_to_pid(text, number)
    descriptor = open_pidfd(text)
    if descriptor is None:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _send_to_pid(text: str, number: int) -> bool:
    """As `send`, for kernels without pidfds: between the look and the signal lie microseconds."""
    if not is_alive(text):
        return False
    try:
        os.kill(split_identity(text)[1], number)
    except OSError:
        return False
    return True


def all_stats() -> Iterator[Stat]:
    """Every process but zombies. Ended ones are left out silently."""
    return _stats_of(_all_pids())


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir(PROC) if name.isdigit()]


def _stats_of(pids: Iterable[int]) -> Iterator[Stat]:
    for pid in pids:
        if (stat := read_stat(pid)) and stat.state not in "ZX":
            yield stat


# identity -> how many processes and threads the machine had begun before that one: see _pids_since
_forks_before: dict[str, int] = {}


def forks() -> int:
    """How many processes and threads this machine has begun since its boot (`processes` in /proc/stat); 0: unknown."""
    with suppress(OSError, ValueError), open("/proc/stat", "rb") as lines:
        for line in lines:
            if line.startswith(b"processes "):
                return int(line.split()[1])
    return 0


def remember_birth(leader: str, forks_before: int) -> None:
    """Have `family` look for the descendants of a process that was just started among younger numbers only.

    `forks_before` is what `forks` said before it was started.
    """
    if forks_before:
        _forks_before[leader] = forks_before


def _pids_since(leader: str) -> list[int]:
    """Numbers of all processes that may have begun after `leader`, itself among them.

    Numbers are given out in turn, so those are the higher ones, as long as they have not come round again since: the
    machine's count of forks says whether they can have (doubled, since a fork that fails uses a number uncounted).
    """
    pids = _all_pids()
    _, pid, _ = split_identity(leader)
    before = _forks_before.get(leader)
    if before is None or pid + 2 * (forks() - before) >= _highest_pid():  # counted after the list was made
        return pids
    return [each for each in pids if each >= pid]


def _highest_pid() -> int:
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/kernel/pid_max").read_text())
    return 0


class Carriers:
    """What each process has for one variable in the environment that it began with, read once a process."""

    def __init__(self, variable: str) -> None:
        self._prefix = f"{variable}=".encode()
        self._values: dict[tuple[int, int], str] = {}

    def value_of(self, stat: Stat) -> str:
        """The variable's value; "" where it is not set, or the process is another user's."""
        key = (stat.pid, stat.start)
        if key not in self._values:
            self._values[key] = self._read(stat.pid)
        return self._values[key]

    def forget_all_but(self, stats: Iterable[Stat]) -> None:
        """Keep only what is known of these."""
        alive = {(stat.pid, stat.start) for stat in stats}
        self._values = {key: value for key, value in self._values.items() if key in alive}

    def _read(self, pid: int) -> str:
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as handle:
            for entry in handle.read().split(b"\0"):
                if entry.startswith(self._prefix):
                    return entry.removeprefix(self._prefix).decode(errors="replace")
        return ""


@dataclass(frozen=True)
class Look:
    """Who was seen of a family. `sure`: nobody can have been missed; else only a second look can say so."""

    members: list[str]
    sure: bool


def family(leader: str, entry: str) -> list[str]:
    """Identities of the living processes that belong to `leader`: its session, and all that carry `entry`.

    `entry` is NAME=value in the environment. Where the leader has gone, its session's number alone proves nothing
    (numbers come round again): then only `entry` does.
    """
    return look_for_family(leader, entry).members


def look_for_family(leader: str, entry: str) -> Look:
    """As `family`; sure where no process was begun on the machine meanwhile, and none was seen between two programs.

    A process that was begun behind our back may be a member's child; execve shows no environment for a moment.
    """
    boot, pid, start = split_identity(leader)
    if boot != boot_id():
        return Look([], sure=True)
    began = forks()
    leading = read_stat(pid)
    session = pid if leading is not None and leading.start == start else None
    belongs = {
        f"{boot}:{stat.pid}:{stat.start}": stat.session == session or _carries(stat, entry)
        for stat in _stats_of(_pids_since(leader))
        if stat.start >= start and not stat.of_kernel
    }
    sure = None not in belongs.values() and 0 < began == forks()
    return Look([member for member, ours in belongs.items() if ours], sure)


def _carries(stat: Stat, entry: str) -> bool | None:
    """Whether `NAME=value` stands in the environment that the process began with; None where it shows none."""
    with suppress(OSError), open(f"/proc/{stat.pid}/environ", "rb") as handle:
        environment = handle.read()
        return entry.encode() in environment.split(b"\0") if environment else None
    return False


def end_family(leader: str, entry: str, *, patience_s: float = 2.0) -> list[str]:
    """Kill (SIGKILL) all that belong to `leader` until none is left; returns who is still alive after `patience_s`.

    None is left where a look that is sure, or two looks one after another, saw none.
    """
    deadline = time.monotonic() + patience_s
    seen_none = 0
    while True:
        look = look_for_family(leader, entry)
        seen_none = 0 if look.members else seen_none + (2 if look.sure else 1)
        if seen_none >= 2:
            _forks_before.pop(leader, None)
        if seen_none >= 2 or time.monotonic() >= deadline:
            return look.members
        for member in sorted(look.members, key=lambda one: one == leader):  # the leader last: it proves whose session
            send(member, signal.SIGKILL)
        time.sleep(0.01 if look.members else 0.002)


def memory_bytes(pid: int) -> int:
    """Proportional set size of one process (shared pages divided by their sharers); 0 where it has gone."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/smaps_rollup") as lines:
        for line in lines:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
