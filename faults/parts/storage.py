"""Disks: full where the jobs lie, full where the database lies, and the power cut while the database is written."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from faults.arena import Arena
from faults.ground import Ground, is_root
from faults.leftout import LeftOut
from faults.processes import kill_jobs
from faults.trials import Fault, Part

TOGETHER = 6
WORK_MIB, DATABASE_MIB = 2, 24
BLOCK = b"\0" * 4096
FULL_WORDS = ("full", "no space")


def full(ground: Ground, part: Part) -> None:
    """Small file systems are filled, and emptied again once somebody has said that they are full."""
    if not is_root():
        raise LeftOut("small file systems can only be mounted as root")
    for _ in range(ground.times(2)):
        folder = ground.folder / f"full-work-{len(part.trials)}"
        with _mounted(folder / "work", WORK_MIB), ground.arena("", "local, SQLite", folder=folder) as arena:
            _fill_work(arena, part)
        folder = ground.folder / f"full-database-{len(part.trials)}"
        with _mounted(folder / "var", DATABASE_MIB), ground.arena("", "local, SQLite", folder=folder) as arena:
            _fill_database(arena, part)


def _fill_work(arena: Arena, part: Part) -> None:
    """No room for tokens, scripts, logs and exit codes: those that run and those that are to begin wait for it."""
    arena.conduct("a")
    arena.slots(2 * TOGETHER)
    arena.plan(TOGETHER, code=arena.chance.choice([0, 7]), seconds=(1.0, 2.0))
    arena.until_in_flight(TOGETHER)
    fault = Fault("disk full", "the jobs' folder", "while jobs run and begin")
    with _filled(arena.folder / "work"):
        arena.plan(TOGETHER)
        arena.limits.until(lambda: _said(arena, "select reason from jobs_job"), what="a job says that the disk is full")
        arena.limits.rest(2.0)
        arena.befall(fault, arena.in_flight())
    arena.settle()
    arena.judge(part)


def _fill_database(arena: Arena, part: Part) -> None:
    """No commit is possible: nothing that was not written down is taken for done."""
    arena.conduct("a", environment={"CONDUCTOR_DATA": str(arena.folder / "a")})
    arena.plan(TOGETHER, code=arena.chance.choice([0, 7]), seconds=(1.0, 2.0))
    arena.until_in_flight(TOGETHER)
    fault = Fault("disk full", "the database's folder", "while jobs end")
    with _filled(arena.folder / "var"):
        arena.limits.until(
            lambda: any(word in arena.stage.conduct_log().lower() for word in FULL_WORDS),
            what="conduct says that the disk is full",
        )
        arena.befall(fault, arena.in_flight())
        arena.limits.rest(2.0)
    arena.settle()
    arena.judge(part)


def _said(arena: Arena, query: str) -> bool:
    return any(word in str(row["reason"]).lower() for row in arena.stage.rows(query) for word in FULL_WORDS)


@contextmanager
def _mounted(folder: Path, size_mib: int) -> Iterator[None]:
    """A file system of that size at `folder`, gone afterwards."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "conductor-trial", str(folder)], check=True)  # noqa: S603, S607
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)  # noqa: S603, S607


@contextmanager
def _filled(folder: Path) -> Iterator[None]:
    """Not a block is free in that file system, until the end."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(BLOCK)
    try:
        yield
    finally:
        filler.unlink()


def power_cut(ground: Ground, part: Part) -> None:
    """All processes end at one moment, and the database is what lay on the disk then."""
    with ground.arena(part.name.replace(" ", "-"), "local, SQLite") as arena:
        arena.conduct("a")
        for _ in range(ground.times(8)):
            _cut(arena)
        arena.settle()
        arena.judge(part)


def _cut(arena: Arena) -> None:
    """Stop everybody, copy the database as it lies there, kill everybody, and go on from the copy.

    A torn frame, as a write that was cut off leaves it, is appended to the copy of the write-ahead log.
    """
    arena.mend()
    arena.plan(TOGETHER, code=arena.chance.choice([0, 7]), seconds=(0.2, 1.5))
    arena.until_in_flight(1, ("submitting", "running"))
    arena.limits.rest(arena.chance.uniform(0.0, 1.2))
    arena.send(arena.pids(), "stop")
    kill_jobs(arena.in_flight())
    database = arena.folder / "var" / "conductor.sqlite3"
    copies = arena.folder / "copies"
    copies.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        shutil.copy(f"{database}{suffix}", copies / f"copy{suffix}")
    arena.send(arena.pids(), "kill")
    with (copies / "copy-wal").open("ab") as log:
        log.write(os.urandom(arena.chance.randrange(1, 4000)))
    for suffix in ("", "-wal"):
        shutil.copy(copies / f"copy{suffix}", f"{database}{suffix}")
    Path(f"{database}-shm").unlink(missing_ok=True)
    fault = Fault("power cut", "all processes", "a random moment", excuses=True)
    arena.befall(fault, arena.in_flight(planned=True))
    arena.mend()
    arena.limits.until(lambda: not arena.in_flight(planned=True), what="all have ended")
