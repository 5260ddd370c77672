"""A whole SLURM on loopback: munge, controller, four nodes with GPUs, and where wanted accounting on a MariaDB.

The nodes are four slurmd on this machine, which say that they have 8 processors, 16,000 MB and 4 GPUs each. Nothing is
constrained: tests run small scripts. Partitions: `debug` (all nodes), `gpu` (two), `short` (two minutes), `off` (down).
"""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from jobs.tests.cluster.daemons import Daemon, answers, until
from jobs.tests.cluster.needs import find, need
from record.tests.servers.ports import free_ports

PROGRAMS = {
    "munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client", "setpriv": "util-linux",
}  # fmt: skip
ACCOUNTING_PROGRAMS = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
NODES = 4
START_S, START_DATABASE_S = 30.0, 60.0

CONF = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
MpiDefault=none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=500
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2,sched_min_interval=0
PriorityType=priority/multifactor
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
MinJobAge={min_job_age_s}
KillWait=2
InactiveLimit=0
OverTimeLimit=0
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=30
MessageTimeout={message_timeout_s}
JobRequeue=1
MaxArraySize=1001
MaxJobCount=20000
JobCompType=jobcomp/none
"""
ACCOUNTING_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting_port}
AccountingStoragePass={folder}/munge/socket
AccountingStorageEnforce=associations,limits,qos
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
"""
PARTITIONS = """\
PartitionName=debug Nodes=ALL Default=YES MaxTime=01:00:00 DefaultTime=00:05:00 State=UP PriorityTier=1
PartitionName=gpu Nodes=n[1-2] MaxTime=02:00:00 DefaultTime=00:10:00 State=UP PriorityTier=1
PartitionName=short Nodes=n[3-4] MaxTime=00:02:00 DefaultTime=00:01:00 MaxNodes=1 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=00:10:00 State=UP PriorityTier=9 PreemptMode=OFF
PartitionName=off Nodes=n4 MaxTime=00:10:00 State=DOWN
"""
DATABASE_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={accounting_port}
SlurmUser={user}
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


class SlurmCluster:
    """Started by `start`, ended by `stop`. `env` is what its commands need; `users` may submit where it accounts."""

    def __init__(
        self, *, accounting: bool, users: tuple[str, ...] = (), min_job_age_s: int = 300, message_timeout_s: int = 5
    ) -> None:
        need(PROGRAMS | (ACCOUNTING_PROGRAMS if accounting else {}))
        self.accounting = accounting
        self.users = users
        self.folder = Path(tempfile.mkdtemp(prefix="conductor-slurm-"))
        self.folder.chmod(0o755)
        ports = free_ports(3 + NODES)
        self.node_ports = ports[3:]
        self._values = {
            "host": socket.gethostname().split(".")[0], "user": getpass.getuser(), "folder": str(self.folder),
            "controller_port": ports[0], "accounting_port": ports[1], "database_port": ports[2],
            "min_job_age_s": min_job_age_s, "message_timeout_s": message_timeout_s,
        }  # fmt: skip
        self.env = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._write_files()
        self._make_daemons()

    def start(self) -> None:
        self.munge.start()
        until(lambda: answers([_path("munge"), "-n", "-S", f"{self.folder}/munge/socket"], env={}), within_s=START_S,
              what="munge answers")  # fmt: skip
        if self.accounting:
            self._start_accounting()
        self.start_controller()
        for node in self.nodes:
            node.start()
        until(self._all_idle, within_s=START_S, what=f"{NODES} idle nodes; see {self.folder}/log")

    def start_controller(self) -> None:
        """Start slurmctld, also after it was killed, and wait until it answers."""
        self.controller.start()
        until(self.is_up, within_s=START_S, what=f"slurmctld answers; see {self.folder}/log")

    def start_slurmdbd(self) -> None:
        """Start slurmdbd, also after it was killed, and wait until it answers."""
        self.slurmdbd.start()
        until(lambda: self.call("sacctmgr", "-n", "list", "cluster") is not None, within_s=START_DATABASE_S,
              what="slurmdbd answers")  # fmt: skip

    def stop(self) -> None:
        """End every job, then every daemon, then remove the folder."""
        for daemon in self.daemons:
            daemon.resume()
        for row in (self.call("squeue", "-h", "-o", "%A") or "").split():
            self.call("scancel", "--signal=KILL", "--full", row)
            self.call("scancel", row)
        with suppress(AssertionError):
            until(lambda: not (self.call("squeue", "-h", "-o", "%A") or "").strip(), within_s=8, what="no job is left")
        for daemon in self.daemons:
            daemon.ask_to_stop()
        for daemon in self.daemons:
            daemon.stop()
        self._end_stragglers()
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *argv: str, timeout_s: float = 10) -> str | None:
        """What one of its commands prints; None where it fails."""
        return answers([_path(argv[0]), *argv[1:]], env=self.env, timeout_s=timeout_s)

    def is_up(self) -> bool:
        return "is UP" in (self.call("scontrol", "ping") or "")

    def update(self, *words: str) -> None:
        """`scontrol update ...`, as an administrator would."""
        subprocess.run([_path("scontrol"), "update", *words], env=os.environ | self.env, check=True, timeout=20)

    def _all_idle(self) -> bool:
        lines = self.call("sinfo", "-h", "-N", "-p", "debug", "-t", "idle", "-o", "%N")
        return len(set((lines or "").split())) == NODES

    def _write_files(self) -> None:
        for name in ("munge", "state", "log", "spool", "run", "db"):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        text = CONF + (ACCOUNTING_CONF if self.accounting else "")
        (self.folder / "slurm.conf").write_text(text.format(**self._values) + self._node_lines() + PARTITIONS)
        (self.folder / "gres.conf").write_text("".join(self._gres_line(number) for number in range(1, NODES + 1)))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        if self.accounting:
            conf = self.folder / "slurmdbd.conf"  # slurmdbd reads it from the folder of $SLURM_CONF
            conf.write_text(DATABASE_CONF.format(**self._values))
            conf.chmod(0o600)

    def _node_lines(self) -> str:
        host = self._values["host"]
        return "".join(
            f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={self.node_ports[number - 1]} CPUs=8 "
            f"Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=16000 "
            f"Gres=gpu:{_gpu(number)}:4 State=UNKNOWN\n"
            for number in range(1, NODES + 1)
        )

    def _gres_line(self, number: int) -> str:
        # Any character devices do: no job touches them.
        return f"NodeName=n{number} Name=gpu Type={_gpu(number)} File=/dev/null,/dev/zero,/dev/full,/dev/random\n"

    def _make_daemons(self) -> None:
        log = self.folder / "log"
        munge = self.folder / "munge"
        self.munge = Daemon(
            [_path("munged"), "--foreground", f"--socket={munge}/socket", f"--key-file={munge}/key",
             f"--pid-file={munge}/pid", f"--log-file={log}/munged.log", f"--seed-file={munge}/seed", "--num-threads=4"],
            log=log / "munged.out",
        )  # fmt: skip
        conf = str(self.folder / "slurm.conf")
        self.controller = Daemon([_path("slurmctld"), "-D", "-f", conf], log=log / "slurmctld.out", env=self.env)
        self.nodes = [
            Daemon([_path("slurmd"), "-D", "-N", f"n{number}", "-f", conf], log=log / f"n{number}.out", env=self.env)
            for number in range(1, NODES + 1)
        ]
        self.daemons = [*self.nodes, self.controller]
        if self.accounting:
            self._make_accounting_daemons(log)
        self.daemons.append(self.munge)

    def _make_accounting_daemons(self, log: Path) -> None:
        data = self.folder / "db"
        self.database = Daemon(
            [_path("mariadbd"), "--no-defaults", f"--user={self._values['user']}", f"--datadir={data}/data",
             f"--socket={data}/socket", f"--pid-file={data}/pid", "--bind-address=127.0.0.1",
             f"--port={self._values['database_port']}", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M",
             "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0"],
            log=log / "mariadb.log",
        )  # fmt: skip
        self.slurmdbd = Daemon([_path("slurmdbd"), "-D"], log=log / "slurmdbd.out", env=self.env)
        self.daemons += [self.slurmdbd, self.database]

    def _start_accounting(self) -> None:
        data = self.folder / "db"
        if not (data / "data" / "mysql").exists():
            subprocess.run(
                [_path("mariadb-install-db"), "--no-defaults", f"--user={self._values['user']}",
                 f"--datadir={data}/data", "--auth-root-authentication-method=normal", "--skip-test-db"],
                check=True, capture_output=True, timeout=START_DATABASE_S,
            )  # fmt: skip
        self.database.start()
        ping = [_path("mariadb-admin"), "--no-defaults", "-u", "root", "-S", f"{data}/socket", "ping"]
        until(lambda: answers(ping, env={}), within_s=START_DATABASE_S, what="MariaDB answers")
        statements = "CREATE DATABASE IF NOT EXISTS slurm_acct_db; " + " ".join(
            f"CREATE USER IF NOT EXISTS 'slurm'@'{host}' IDENTIFIED BY 'slurm'; "
            f"GRANT ALL ON slurm_acct_db.* TO 'slurm'@'{host}';"
            for host in ("127.0.0.1", "localhost")
        )
        argv = [_path("mariadb"), "--no-defaults", "-u", "root", "-S", f"{data}/socket", "-e", statements]
        subprocess.run(argv, check=True, capture_output=True, timeout=START_S)
        self.start_slurmdbd()
        self.call("sacctmgr", "-i", "add", "cluster", "lab")
        self.call("sacctmgr", "-i", "add", "account", "lab", "Description=lab", "Organization=lab", "Cluster=lab")
        for user in {"root", *self.users}:
            self.call("sacctmgr", "-i", "add", "user", user, "Account=lab", "Cluster=lab")

    def _end_stragglers(self) -> None:
        """Step daemons and scripts of jobs that would not end: all that have our SLURM_CONF in their environment."""
        mark = f"SLURM_CONF={self.env['SLURM_CONF']}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)


def _gpu(number: int) -> str:
    return "a100" if number <= NODES // 2 else "l40s"


def _path(program: str) -> str:
    return find(program) or program
