"""Which parts there are, and how they run: three lanes side by side."""

import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from conductor_site.tests.postgresql import binaries, running_server
from faults.ground import Ground
from faults.leftout import LeftOut
from faults.limits import Interrupted
from faults.parts import clock, clusters, databases, judgement, local, notices, storage
from faults.trials import Part

Do = Callable[[Ground, Part], None]


def _with_server(act: Callable[..., None], **given: Any) -> Do:
    """A part that needs a PostgreSQL of its own."""

    def do(ground: Ground, part: Part) -> None:
        try:
            binaries()
        except FileNotFoundError as error:
            raise LeftOut(str(error)) from None
        with running_server() as server:
            act(ground, part, server=server, **given)

    return do


PARTS: dict[str, Do] = {
    "local": partial(local.run, where="local, SQLite"),
    "local-postgresql": _with_server(local.run, where="local, PostgreSQL"),
    "gates": partial(judgement.run, where="gates, SQLite"),
    "gates-postgresql": _with_server(judgement.run, where="gates, PostgreSQL"),
    "postgresql": _with_server(databases.fell_server),
    "hosts": _with_server(databases.two_hosts),
    "disk": storage.full,
    "power": storage.power_cut,
    "clock": clock.run,
    "notices": partial(notices.run, where="notices, SQLite"),
    "slurm": partial(clusters.run, accounting=False, where="SLURM"),
    "slurmdbd": partial(clusters.run, accounting=True, where="SLURM with slurmdbd"),
    "ssh": partial(clusters.over_ssh, where="SLURM over SSH"),
}
# Side by side, each about as long as the others: most of their time is waiting.
LANES = (
    ("local", "local-postgresql", "disk", "power", "clock", "notices"),
    ("gates", "gates-postgresql", "postgresql", "hosts"),
    ("slurm", "slurmdbd", "ssh"),
)


def run_lanes(ground: Ground, names: list[str]) -> list[Part]:
    """Run these parts; what each came to, in the order of the table."""
    parts = {name: Part(name) for name in PARTS if name in names}
    lanes = [
        threading.Thread(target=_run_lane, args=(ground, [parts[name] for name in lane if name in parts]))
        for lane in LANES
    ]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        while lane.is_alive():
            lane.join(0.5)  # so that an interrupt is heard
    return list(parts.values())


def _run_lane(ground: Ground, parts: list[Part]) -> None:
    for part in parts:
        _run(ground, part)


def _run(ground: Ground, part: Part) -> None:
    began = time.monotonic()
    try:
        ground.limits.rest(0)
        PARTS[part.name](ground, part)
    except (LeftOut, pytest.skip.Exception) as reason:  # the second: a service that can't be had
        part.left_out = str(reason)
    except pytest.fail.Exception as reason:  # the same, where nothing may be left out (CI=true)
        part.failure = str(reason)
    except Interrupted:
        part.failure = "interrupted"
    except Exception as error:
        part.failure = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    part.seconds = time.monotonic() - began
    print(f"{part.name}: {len(part.trials)} trials in {part.seconds:.0f} s {part.failure or part.left_out}", flush=True)
