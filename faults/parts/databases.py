"""PostgreSQL killed, stalled and away while jobs are in flight; and two hosts on one database."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from conductor_site.tests.postgresql import USER, Server, administer
from faults.arena import STALL_S, WORDS, Arena
from faults.ground import Ground, is_root
from faults.leftout import LeftOut
from faults.processes import all_pids, kill_jobs
from faults.trials import Fault, Part
from jobs.processes import read_stat, split_identity

TOGETHER = 8
AWAY_S = 30.0
LEASE_S = 35.0  # longer than the lease under which one `conduct` does what is due for all
HOSTS = {"host-a": 1, "host-b": 2}  # name -> target


def fell_server(ground: Ground, part: Part, *, server: Server) -> None:
    """The server dies or stalls, with work on its hands."""
    with ground.arena("server", "local, PostgreSQL", server=server) as arena:
        # What a copy of a database counts on from its template's log, a sequence's next numbers, is not in its own yet.
        administer(server.url("postgres"), "CHECKPOINT")
        arena.conduct("a")
        arena.conduct("b")
        for _ in range(ground.times(3)):
            with _in_flight(arena, Fault(WORDS["kill"], "PostgreSQL", "a random moment")):
                _kill(server)
            arena.limits.until(lambda: _started(server), what="PostgreSQL runs again", every_s=0.5)
            _until_none_in_flight(arena)
            with _in_flight(arena, Fault(WORDS["stop"], "PostgreSQL", "a random moment")):
                pids = [pid for pid in all_pids() if _is_backend(pid, server)]
                arena.send(pids, "stop")
            arena.limits.rest(2 * STALL_S)
            arena.send(pids, "go on")
            _until_none_in_flight(arena)
        with _in_flight(arena, Fault("away for 30 s", "PostgreSQL", "a random moment")):
            server.stop()
        arena.limits.rest(AWAY_S)
        server.start()
        _until_none_in_flight(arena)
        arena.settle()
        arena.judge(part)


def two_hosts(ground: Ground, part: Part, *, server: Server) -> None:
    """Two hosts, each without any network but the database's socket: each one's jobs are its own."""
    if not is_root():
        raise LeftOut("a network can only be taken away from processes as root (unshare --net)")
    with ground.arena("hosts", "two hosts, PostgreSQL", server=server) as arena:
        _two_targets(arena)
        own: dict[str, set[int]] = {name: set() for name in HOSTS}
        for name in HOSTS:
            _host(arena, name, server, own[name])
        for _ in range(ground.times(3)):
            for name in HOSTS:
                _conduct_dies(arena, name)
                _host_dies(arena, name)
        for name in HOSTS if ground.scale >= 1 else []:
            _conduct_stalls(arena, name)
        arena.settle()
        arena.judge(part)
        _judge_homes(arena, own)


def _two_targets(arena: Arena) -> None:
    """The stage's target belongs to one host, a copy of it to the other."""
    (row,) = arena.stage.rows("select * from jobs_target")
    first, second = HOSTS
    with arena.stage.connection() as connection:
        connection.execute("update jobs_target set host = ?", [first])
        copy = row | {"id": HOSTS[second], "name": second, "host": second, "uuid": uuid4()}
        from psycopg.types.json import Jsonb

        values = [Jsonb(value) if isinstance(value, list | dict) else value for value in copy.values()]
        marks = ", ".join("?" * len(copy))
        names = ", ".join(f'"{name}"' for name in copy)
        connection.execute(f"insert into jobs_target ({names}) values ({marks})", values)  # noqa: S608


def _host(arena: Arena, name: str, database: Server, own: set[int]) -> None:
    """Keep that host's `conduct`, and put down the pid of each that is started."""
    url = f"postgresql:///{arena.stage.rows('select current_database() as name')[0]['name']}"
    url += f"?host={database.folder}&port={database.port}&user={USER}"
    environment = {"DATABASE_URL": url, "CONDUCTOR_HOST_NAME": name}

    def start() -> subprocess.Popen[bytes]:
        process = arena.stage.conduct(data=name, within=("unshare", "--net", "--"), environment=environment)
        own.add(process.pid)
        return process

    arena.keep(name, start)


def _plan_on_both(arena: Arena) -> None:
    for number in HOSTS.values():
        arena.plan(TOGETHER // 2, code=arena.chance.choice([0, 7]), seconds=(0.5, 2.0), target_id=number)


def _of(arena: Arena, name: str) -> list[str]:
    """Tokens of that host's jobs that are in flight."""
    rows = arena.stage.rows(f"select token from jobs_job where target_id = {HOSTS[name]}")  # noqa: S608
    own = {row["token"] for row in rows}
    return [token for token in arena.in_flight() if token in own]


def _pid_of(arena: Arena, name: str) -> int:
    return arena.kept[name][1].pid


def _conduct_dies(arena: Arena, name: str) -> None:
    arena.mend()
    _plan_on_both(arena)
    arena.limits.until(lambda: _of(arena, name), what=f"{name} has jobs in flight")
    arena.limits.rest(arena.chance.uniform(0.0, 0.6))
    arena.send([_pid_of(arena, name)], "kill")
    arena.befall(Fault(WORDS["kill"], "one host's conduct", "a random moment"), _of(arena, name))
    arena.limits.rest(STALL_S)
    _until_none_in_flight(arena)


def _conduct_stalls(arena: Arena, name: str) -> None:
    """For longer than its lease: the other host does what is due for all, and leaves its jobs alone."""
    _plan_on_both(arena)
    arena.limits.until(lambda: _of(arena, name), what=f"{name} has jobs in flight")
    arena.send([_pid_of(arena, name)], "stop")
    arena.befall(Fault(f"{WORDS['stop']}, {LEASE_S:g} s", "one host's conduct", "a random moment"), _of(arena, name))
    arena.limits.rest(LEASE_S)
    arena.send([_pid_of(arena, name)], "go on")
    _until_none_in_flight(arena)


def _host_dies(arena: Arena, name: str) -> None:
    """Its `conduct` and all of its jobs' processes are killed at once."""
    arena.mend()
    _plan_on_both(arena)
    arena.limits.until(lambda: _of(arena, name), what=f"{name} has jobs in flight")
    arena.limits.rest(arena.chance.uniform(0.0, 0.6))
    arena.send([_pid_of(arena, name)], "kill")
    tokens = _of(arena, name)
    kill_jobs(tokens)
    arena.befall(Fault(WORDS["kill"], "a whole host", "a random moment", excuses=True), tokens)
    arena.limits.rest(STALL_S)
    _until_none_in_flight(arena)


def _judge_homes(arena: Arena, own: dict[str, set[int]]) -> None:
    """Each job was claimed by a `conduct` of its own host, and by no other."""
    for name, number in HOSTS.items():
        rows = arena.stage.rows(f"select token, holder from jobs_job where target_id = {number}")  # noqa: S608
        for row in rows:
            pid = split_identity(row["holder"])[1]
            if pid not in own[name] and row["token"] in arena.trials:
                arena.trials[row["token"]].wrong = f"a job of {name} was claimed by pid {pid}, which is not its conduct"


@contextmanager
def _in_flight(arena: Arena, fault: Fault) -> Iterator[None]:
    arena.mend()
    arena.plan(TOGETHER, code=arena.chance.choice([0, 7]), seconds=(1.0, 3.0))
    arena.until_in_flight(1, ("submitting", "running"))
    arena.limits.rest(arena.chance.uniform(0.0, 0.5))
    tokens = arena.in_flight()
    yield
    arena.befall(fault, tokens)


def _until_none_in_flight(arena: Arena) -> None:
    def none() -> bool:
        arena.mend()
        return not arena.in_flight(planned=True)

    arena.limits.until(none, what="all have ended", every_s=0.2)


def _kill(database: Server) -> None:
    """kill -9 of the postmaster; its children notice, and end."""
    note = database.data / "postmaster.pid"
    pid = int(note.read_text().split()[0])
    children = [child for child in all_pids() if _is_backend(child, database)]
    os.kill(pid, signal.SIGKILL)
    for child in [pid, *children]:
        while (stat := read_stat(child)) and stat.state not in "ZX":
            pass
    note.unlink()


def _started(server: Server) -> bool:
    """Whether it could be started: not while a process of the one before still has its shared memory."""
    try:
        server.start()
    except RuntimeError:
        return False
    return True


def _is_backend(pid: int, database: Server) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == database.data
    except OSError:
        return False
