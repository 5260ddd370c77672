"""A real SLURM: workers, its daemons, sbatch, guards and the connection to it, felled one after another."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from conductor_site.tests.drivers import DRIVER, use_cluster
from conductor_site.tests.stage import ROOT
from faults.arena import STALL_S, WORDS, Arena
from faults.ground import Ground
from faults.parts.local import GUARD_BOUNDARIES
from faults.processes import all_pids, carries, resume
from faults.trials import Fault, Part
from jobs.processes import read_stat
from jobs.tests.cluster.daemons import Daemon
from jobs.tests.cluster.needs import find
from jobs.tests.cluster.slurm import SlurmCluster
from jobs.tests.cluster.sshd import SshServer, ordinary_user

BOUNDARIES = [
    "claim_before_commit", "claimed", "prepared", "handed_over", "recorded", "polled", "before_final",
    "final_before_commit", "final_recorded",
]  # fmt: skip
TOGETHER = 10
LONG = (2.0, 5.0)  # seconds that jobs take which are to be in flight when a daemon falls
DAEMON_STALL_S = 8.0  # longer than SLURM's MessageTimeout here (5 s): whoever asks meanwhile gets an error
COMMANDS = ["squeue", "sacct", "scancel", "scontrol", "sinfo"]

# Stands before the real sbatch. A file `sbatch.armed` says where it is to fall, once: before it asked the controller,
# or after the controller took the job and before anybody heard of it.
SBATCH = """#!/bin/bash
armed={folder}/sbatch.armed
fell={folder}/sbatch.fell.$$
mv "$armed" "$fell" 2>/dev/null || exec {real} "$@"
read -r when how < "$fell"
fall() {{ echo "$CONDUCTOR_TOKEN" > "$fell.at"; kill "-$how" $$; }}
[ "$when" = before ] && fall
said=$({real} "$@") || exit
[ "$when" = after ] && fall
echo "$said"
"""


def run(ground: Ground, part: Part, *, accounting: bool, where: str) -> None:
    """On this machine; with slurmdbd and MariaDB, or without accounts."""
    cluster = SlurmCluster(accounting=accounting, users=(ordinary_user(),))
    try:
        cluster.start()
        with ground.arena(part.name, where) as arena:
            use_cluster(arena.stage, cluster, commands_folder=str(_commands(arena)))
            arena.slots(TOGETHER)
            arena.keep("first", lambda: _driver(arena))
            arena.keep("second", lambda: _driver(arena))
            for boundary, action in product(BOUNDARIES, WORDS):
                _until_none_in_flight(arena, cluster)
                _at_boundary(arena, boundary, action)
            for when, how in product(("before", "after"), WORDS):
                _until_none_in_flight(arena, cluster)
                _sbatch(arena, when, how)
            for action in WORDS:
                _guards(arena, action)
            for _ in range(ground.times(1)):
                _daemons(arena, cluster)
            for _ in range(ground.times(2)):
                _all_drivers(arena, cluster)
            _site(arena, cluster)
            arena.settle(within_s=150)
            arena.judge(part)
    finally:
        cluster.stop()


def over_ssh(ground: Ground, part: Part, *, where: str) -> None:
    """A cluster behind a login node: the connection's two ends, and the login node's server."""
    cluster = SlurmCluster(accounting=False, users=(ordinary_user(),))
    server = None
    try:
        cluster.start()
        server = SshServer(env=cluster.env)
        server.start()
        with ground.arena(part.name, where) as arena:
            _use_login(arena, cluster, server)
            arena.keep("first", lambda: _driver(arena))
            arena.keep("second", lambda: _driver(arena))
            for _ in range(ground.times(2)):
                _connections(arena, server, cluster)
            arena.settle(within_s=150)
            arena.judge(part)
    finally:
        if server:
            server.stop()
        cluster.stop()


def _use_login(arena: Arena, cluster: SlurmCluster, server: SshServer) -> None:
    login = {"ssh_host": "cluster", "ssh_config": str(server.config), "ssh_known_hosts": str(server.known_hosts)}
    use_cluster(arena.stage, cluster, **login, **{"shell": "ssh"})
    arena.slots(TOGETHER)
    home = server.home
    arena.stage.execute(f"update jobs_target set roots = '[\"{home}/work\"]', job_folder = '{home}/jobs'")  # noqa: S608
    arena.stage.environment["CONDUCTOR_SSH_CONTROL"] = f"{server.folder}/c"
    for name in ("work", "jobs"):
        (home / name).mkdir()
        os.chown(home / name, os.stat(home).st_uid, os.stat(home).st_gid)
    template = arena.stage.template
    for column in ("work_dir", "job_folder", "stdout_path", "stderr_path"):
        template[column] = template[column].replace("/STAGE/jobs", f"{home}/jobs").replace("/STAGE", f"{home}/work")


def _commands(arena: Arena) -> Path:
    folder = arena.folder / "commands"
    folder.mkdir()
    for name in COMMANDS:
        (folder / name).symlink_to(find(name) or name)
    (folder / "sbatch").write_text(SBATCH.format(folder=arena.armed, real=find("sbatch")))
    (folder / "sbatch").chmod(0o755)  # noqa: S103 - a program
    return folder


def _driver(arena: Arena) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", DRIVER], cwd=ROOT, env=arena.stage.environment, stdout=arena.stage.log,
        stderr=arena.stage.log,
    )  # fmt: skip


def _at_boundary(arena: Arena, boundary: str, action: str) -> None:
    """Fell the driver that comes to a boundary."""
    arena.arm(boundary, action)
    arena.plan(code=arena.chance.choice([0, 0, 7]))
    pid, tokens = arena.fallen(boundary)
    fresh = [token for token in tokens.split() if token not in arena.trials]
    arena.befall(Fault(WORDS[action], "worker", boundary), fresh[:1])
    if action == "stop":
        arena.limits.rest(STALL_S)
        arena.send([pid], "go on")


def _sbatch(arena: Arena, when: str, how: str) -> None:
    """sbatch dies, or stalls while the driver that waits for it is killed."""
    arena.mend()
    boundary = {"before": "before it asks", "after": "after its job is taken"}[when]
    (arena.armed / "sbatch.armed").write_text(f"{when} {'KILL' if how == 'kill' else 'STOP'}\n")
    arena.plan()
    note = arena.limits.until(lambda: next(iter(arena.armed.glob("sbatch.fell.*.at")), None), what="sbatch falls")
    token = arena.limits.until(lambda: note.read_text().strip(), what="sbatch tells its job")
    arena.befall(Fault(WORDS[how], "sbatch", boundary), [token])
    note.unlink()
    if how == "stop":
        pid = int(note.name.split(".")[2])
        arena.limits.rest(STALL_S)
        arena.send(arena.pids(), "kill")
        arena.limits.rest(STALL_S)
        if read_stat(pid):
            os.kill(pid, signal.SIGCONT)


def _guards(arena: Arena, action: str) -> None:
    """Guards on the nodes fall at each of their own boundaries, one job a boundary."""
    arena.mend()
    befallen = {}
    for boundary in GUARD_BOUNDARIES:
        fault = f"{boundary}:{'KILL' if action == 'kill' else 'STOP'}"
        (token,) = arena.plan(environment={"CONDUCTOR_GUARD_FAULT": fault})
        befallen[token] = boundary
    marks = [arena.folder / "work" / "jobs" / token / f"fault.{at}" for token, at in befallen.items()]
    arena.limits.until(lambda: all(mark.exists() for mark in marks), what="all guards have fallen")
    for token, boundary in befallen.items():
        arena.befall(Fault(WORDS[action], "guard", boundary, excuses=action == "kill"), [token])
    if action == "stop":
        arena.limits.rest(STALL_S)
        resume(arena.limits, lambda pid: any(carries(pid, f"CONDUCTOR_TOKEN={token}".encode()) for token in befallen))


def _daemons(arena: Arena, cluster: SlurmCluster) -> None:
    """Each daemon killed and started anew, and stalled for longer than SLURM waits, with jobs in flight."""
    whom: dict[str, list[Daemon]] = {
        "slurmctld": [cluster.controller], "slurmd (all nodes)": cluster.nodes, "munged": [cluster.munge],
    }  # fmt: skip
    if cluster.accounting:
        whom["slurmdbd"] = [cluster.slurmdbd]
    for (name, daemons), action in product(whom.items(), WORDS):
        with _in_flight(arena, Fault(WORDS[action], name, "a random moment")):
            for daemon in daemons:
                daemon.kill() if action == "kill" else daemon.stall()
        arena.limits.rest(arena.chance.uniform(1.0, 2.0) if action == "kill" else DAEMON_STALL_S)
        for daemon in daemons:
            daemon.start() if action == "kill" else daemon.resume()
        _until_none_in_flight(arena, cluster)


@contextmanager
def _in_flight(arena: Arena, fault: Fault) -> Iterator[None]:
    """Have jobs in flight; those that are so after what is done here were befallen by it."""
    arena.mend()
    arena.plan(TOGETHER, code=arena.chance.choice([0, 0, 7]), seconds=LONG)
    arena.until_in_flight(TOGETHER // 2, ("queued", "running"))
    arena.limits.rest(arena.chance.uniform(0.0, 1.5))
    yield
    arena.befall(fault, arena.in_flight())


def _until_none_in_flight(arena: Arena, cluster: SlurmCluster) -> None:
    """What SLURM itself queued again (it could not start it without munged) it lets wait two minutes: not here."""

    def none() -> bool:
        arena.mend()
        for row in (cluster.call("squeue", "-h", "-t", "PD", "-o", "%A %r") or "").splitlines():
            if row.endswith("BeginTime"):
                cluster.call("scontrol", "update", f"jobid={row.split()[0]}", "StartTime=now")
        return not arena.in_flight(planned=True)

    arena.limits.until(none, what="all jobs have ended", within_s=150, every_s=0.5)


def _all_drivers(arena: Arena, cluster: SlurmCluster) -> None:
    """Nobody deals with the cluster for a while, and then somebody else does."""
    with _in_flight(arena, Fault(WORDS["kill"], "every worker", "a random moment")):
        arena.send(arena.pids(), "kill")
    arena.limits.rest(1.0)
    _until_none_in_flight(arena, cluster)


def _site(arena: Arena, cluster: SlurmCluster) -> None:
    """A real `conduct` with its task cluster: a worker, the main process, and all of it at once are killed."""
    arena.send(arena.pids(), "kill")
    arena.kept.clear()
    arena.stage.environment["CONDUCTOR_CLUSTER_HUNG_AFTER_S"] = "8"
    arena.conduct("var", options=())
    for whom, choose in SITE.items():
        with _in_flight(arena, Fault(WORDS["kill"], whom, "a random moment")):
            arena.send(choose(arena), "kill")
        _until_none_in_flight(arena, cluster)


def _task_processes(arena: Arena) -> list[int]:
    """Of the task cluster: its main process first."""
    mark = str(arena.folder).encode()
    found = [pid for pid in all_pids() if carries(pid, b"qcluster") and carries(pid, mark)]
    return sorted(found)


SITE: dict[str, Callable[[Arena], list[int]]] = {
    "a task worker": lambda arena: [arena.chance.choice(_task_processes(arena)[1:])],
    "the task cluster": lambda arena: _task_processes(arena)[:1],
    "conduct": lambda arena: arena.pids(),
    "conduct and workers": lambda arena: [*arena.pids(), *_task_processes(arena)],
}


def _connections(arena: Arena, server: SshServer, cluster: SlurmCluster) -> None:
    """The master connection, the server's sessions, and the server itself."""
    for whom, action in product(CONNECTION, WORDS):
        with _in_flight(arena, Fault(WORDS[action], whom, "a random moment")):
            pids = arena.limits.until(lambda whom=whom: CONNECTION[whom](server), what=f"there is {whom}")  # type: ignore[misc]
            arena.send(pids, action)
        arena.limits.rest(1.0 if action == "kill" else DAEMON_STALL_S)
        if action == "stop":
            arena.send(pids, "go on")
        server.start()
        _until_none_in_flight(arena, cluster)


def _masters(server: SshServer) -> list[int]:
    mark = f"{server.folder}/c".encode()
    return [pid for pid in all_pids() if carries(pid, b"[mux]") and carries(pid, mark)]


CONNECTION: dict[str, Callable[[SshServer], list[int]]] = {
    "ssh master": _masters,
    "sshd session": lambda server: server.sessions(),
    "sshd": lambda server: [server.daemon.pid],
}
