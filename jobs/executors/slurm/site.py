"""How one cluster is spoken to, and what is asked for on the command line."""

from dataclasses import dataclass

from jobs.executors import Order

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class Site:
    """One cluster as a target knows it. Empty texts leave the matter to the script's own #SBATCH lines.

    `commands_folder` is where sbatch and its kin are, if not on the usual path; `conf_path` the value of SLURM_CONF;
    `cluster` the name for -M, on sites with several. `gres` counts only for scripts that ask for a gres themselves.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    gres: str = ""
    constraint: str = ""
    nodes: str = ""
    memory: str = ""
    cluster: str = ""
    commands_folder: str = ""
    conf_path: str = ""

    def command(self, name: str) -> str:
        """The program as it is called."""
        return f"{self.commands_folder.rstrip('/')}/{name}" if self.commands_folder else name

    def options(self, *, gres: bool) -> list[str]:
        """What sbatch is told of the site; with `gres` also of that, where the script asks for one."""
        given = {
            "clusters": self.cluster, "partition": self.partition, "account": self.account, "qos": self.qos,
            "constraint": self.constraint, "nodes": self.nodes, "mem": self.memory, "gres": self.gres if gres else "",
        }  # fmt: skip
        return [f"--{name}={value}" for name, value in given.items() if value]

    def environment(self) -> dict[str, str]:
        """What SLURM's own commands are run with: times in UTC and in the one format that we read, English words."""
        conf = {"SLURM_CONF": self.conf_path} if self.conf_path else {}
        return {"PATH": SYSTEM_PATH, "LC_ALL": "C", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"} | conf


@dataclass(frozen=True)
class SlurmOrder(Order):
    """An order with what only a scheduler is told. `job_name` ends in the token, so that look-ups find it by name.

    With `requeue` SLURM may start it again by itself, under the same id, after a node failed or it was preempted.
    """

    job_name: str = ""
    time_limit_s: int = 0
    requeue: bool = False


def job_name(*, phase: str, token: str) -> str:
    """`<phase>-<token>`, the phase cut and made harmless: names show in squeue and become part of file names (%x)."""
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in phase)
    return f"{plain.strip('._-')[:60] or 'job'}-{token}"
