"""This machine's own jobs: `conduct` felled at each boundary and at random, guards felled at each of theirs."""

from itertools import product

from conductor_site.tests.postgresql import Server
from faults.arena import STALL_S, WORDS, Arena
from faults.ground import Ground
from faults.processes import carries, resume
from faults.trials import Fault, Part

BOUNDARIES = [
    "claim_before_commit", "claimed", "folder_made", "submit_made", "before_spawn", "spawned", "given", "recorded",
    "before_final", "final_before_commit", "final_recorded",
]  # fmt: skip
GUARD_BOUNDARIES = ["before_owner", "after_owner", "started", "before_exit", "after_exit"]
TOGETHER = 8
AGAIN = 0.3


def run(ground: Ground, part: Part, *, server: Server | None = None, where: str) -> None:
    """Two `conduct`s at once on one database."""
    with ground.arena(part.name.replace(" ", "-"), where, server=server) as arena:
        arena.conduct("a")
        arena.conduct("b")
        for boundary, action in ground.choose(list(product(BOUNDARIES, WORDS)), times=2):
            at_boundary(arena, boundary, action)
        for _ in range(ground.times(8)):
            all_at_random(arena)
        for action in WORDS:
            for _ in range(ground.times(2)):
                guards(arena, action)
        arena.settle()
        arena.judge(part)


def at_boundary(arena: Arena, boundary: str, action: str) -> None:
    """Fell the `conduct` that comes to a boundary; the other goes on, and finds what the first one left."""
    arena.mend()
    arena.limits.until(lambda: not arena.in_flight(planned=True), what="the trial before has ended")
    arena.arm(boundary, action)
    arena.plan(code=arena.chance.choice([0, 0, 7]))
    pid, token = arena.fallen(boundary)
    arena.befall(Fault(WORDS[action], "conduct", boundary), [token])
    if action == "stop":
        arena.limits.rest(STALL_S)
        arena.send([pid], "go on")


def all_at_random(arena: Arena) -> None:
    """Kill every `conduct` at a random moment: all that is in flight has nobody, until they are started anew."""
    arena.mend()
    arena.plan(TOGETHER, code=arena.chance.choice([0, 7]), seconds=(0.3, 2.0))
    arena.until_in_flight(1, ("submitting", "running"))
    arena.limits.rest(arena.chance.uniform(0.0, 0.6))
    arena.send(arena.pids(), "kill")
    arena.befall(Fault(WORDS["kill"], "every conduct", "a random moment"), arena.in_flight())
    while arena.in_flight(planned=True):
        arena.mend()
        arena.limits.rest(arena.chance.uniform(0.5, 2.0))
        if arena.chance.random() < AGAIN:  # while what the first death left is being seen to
            arena.send(arena.pids(), "kill")


def guards(arena: Arena, action: str) -> None:
    """Guards that fall at each of their own boundaries, one job a boundary."""
    arena.mend()
    befallen = {}
    for boundary in GUARD_BOUNDARIES:
        fault = f"{boundary}:{'KILL' if action == 'kill' else 'STOP'}"
        (token,) = arena.plan(environment={"CONDUCTOR_GUARD_FAULT": fault})
        befallen[token] = boundary
    marks = {
        token: arena.folder / "work" / "jobs" / token / f"fault.{boundary}" for token, boundary in befallen.items()
    }
    arena.limits.until(lambda: all(mark.exists() for mark in marks.values()), what="all guards have fallen")
    for token, boundary in befallen.items():
        arena.befall(Fault(WORDS[action], "guard", boundary, excuses=action == "kill"), [token])
    if action == "stop":
        arena.limits.rest(STALL_S)
        resume(arena.limits, lambda pid: carries(pid, str(arena.folder / "work" / "jobs").encode()))
