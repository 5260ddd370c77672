"""The clock of the day is set forward and back while jobs are in flight, for `conduct` and all that it starts."""

import os
import shutil
import subprocess
from pathlib import Path

from faults.arena import WORDS, Arena
from faults.ground import Ground
from faults.leftout import LeftOut
from faults.trials import Fault, Part

TOGETHER = 6
HOUR_S = 3600
SHIFTS = {"a day forward": 24 * HOUR_S, "an hour back": -HOUR_S}


def run(ground: Ground, part: Part) -> None:
    """With a library preloaded that moves the clock of these processes, whatever that of the machine says."""
    library = _library(ground.folder)
    with ground.arena("clock", "local, SQLite") as arena:
        shift = arena.folder / "shift"
        shift.write_text("0\n")
        environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(shift)}
        arena.conduct("a", environment=environment)
        arena.conduct("b", environment=environment)
        now_s = 0
        for _ in range(ground.times(2)):
            for what, by_s in SHIFTS.items():
                now_s += by_s
                _move(arena, shift, what, now_s, killed=False)
                now_s -= by_s
                _move(arena, shift, f"{what}, and set right", now_s, killed=True)
        arena.settle()
        arena.judge(part)


def _library(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise LeftOut("there is no C compiler here (cc) for the library that moves a process's clock")
    library = folder / "clock_shift.so"
    source = Path(__file__).resolve().parents[1] / "clock_shift.c"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)  # noqa: S603
    return library


def _move(arena: Arena, shift: Path, what: str, to_s: int, *, killed: bool) -> None:
    """Set the clock with jobs in flight; with `killed`, every `conduct` dies just before and finds it set."""
    arena.mend()
    arena.plan(TOGETHER, code=arena.chance.choice([0, 7]), seconds=(0.5, 2.0))
    arena.until_in_flight(1, ("submitting", "running"))
    arena.limits.rest(arena.chance.uniform(0.0, 0.4))
    if killed:
        arena.send(arena.pids(), "kill")
    part = shift.with_suffix(".part")
    part.write_text(f"{to_s}\n")
    os.replace(part, shift)
    whom = f"clock, and {WORDS['kill']} of every conduct" if killed else "clock"
    arena.befall(Fault(what, whom, "a random moment"), arena.in_flight())
    arena.mend()
    arena.limits.until(lambda: not arena.in_flight(planned=True), what="all have ended")
