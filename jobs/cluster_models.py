"""What is known of a target's cluster: how it is reached and asked (set up by people), and how that goes."""

import re
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models

if TYPE_CHECKING:
    from jobs.executors.slurm.site import Site
    from jobs.ssh import Login

HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*\Z")
_WORD = RegexValidator(r"^[A-Za-z0-9_.,:=/@&|*\[\]()+-]*\Z", "No white space, quotes or characters of a shell.")

ONE_CLUSTER = re.compile(r"(?!all\Z)[A-Za-z0-9_.-]{1,90}\Z")
LONGEST_S = 10 * 365 * 24 * 3600  # longer times have no end that a calendar knows
TIMES = ("poll_floor_s", "poll_ceiling_s", "look_up_wait_s", "agree_s", "lost_after_s")


def refuse_beyond(row: models.Model, largest: dict[str, int]) -> None:
    """ValidationError, in words, where a number of the row is larger than it can be meant."""
    found = {name: most for name, most in largest.items() if (getattr(row, name) or 0) > most}
    if found:
        raise ValidationError({name: f"At most {most} is possible." for name, most in found.items()})


class ShellKind(models.TextChoices):
    LOCAL = "local", "on this machine"
    SSH = "ssh", "over SSH"


def _word(help_text: str, length: int = 200) -> "models.CharField[str, str]":
    return models.CharField(max_length=length, blank=True, validators=[_WORD], help_text=help_text)


class Cluster(models.Model):
    """A SLURM cluster that belongs to one target. Empty fields leave the matter to the scripts' own #SBATCH lines."""

    target = models.OneToOneField("jobs.Target", on_delete=models.PROTECT, primary_key=True, related_name="cluster")
    shell = models.CharField(
        max_length=10, choices=ShellKind, default=ShellKind.LOCAL, help_text="where sbatch runs and the files lie"
    )
    ssh_host = _word("over SSH: user@host, or a name of the ssh_config")
    ssh_port = models.PositiveIntegerField(default=0, help_text="0: the usual, or that of the ssh_config")
    ssh_config = _word("an ssh_config to use instead of that of the user under whom Conductor runs", 500)
    ssh_identity = _word("path of a private key; the key itself is never kept here", 500)
    ssh_known_hosts = _word("a known_hosts to use; the host's key must stand in it", 500)
    ssh_by_person = models.BooleanField(
        default=False, help_text="a second factor is asked for: a person opens the connection, Conductor never does"
    )
    python = _word("over SSH: a Python there with numpy, scipy, matplotlib, mrcfile and starfile, for evidence", 500)

    partition = _word("goes over what the scripts say")
    account = _word("goes over what the scripts say")
    qos = _word("quality of service; goes over what the scripts say")
    gres = _word("for scripts that ask for a gres themselves: this one instead, e.g. gpu:a100:2")
    constraint = _word("features that nodes must have")
    nodes = _word("number of nodes, or from-to")
    memory = _word("memory for every job, e.g. 64G")
    cluster_name = _word("on sites with several clusters: which (-M)")
    commands_folder = _word("where sbatch and its kin are, if not on the usual path", 500)
    conf_path = _word("value of SLURM_CONF, where it is needed", 500)
    requeue = models.BooleanField(default=False, help_text="SLURM may start jobs again by itself")

    poll_floor_s = models.PositiveIntegerField(default=10, validators=[MinValueValidator(1)])
    poll_ceiling_s = models.PositiveIntegerField(default=60, validators=[MinValueValidator(1)])
    look_up_wait_s = models.PositiveIntegerField(
        default=150, help_text="after a submission of unknown outcome: how long to wait before another one"
    )
    agree_s = models.PositiveIntegerField(
        default=120, help_text="how long a node failure or a preemption must stand before it is believed"
    )
    lost_after_s = models.PositiveIntegerField(
        default=600, help_text="how long nothing may be known of a job before it is called lost"
    )

    def __str__(self) -> str:
        return self.ssh_host or "SLURM on this machine"

    def clean(self) -> None:
        refuse_beyond(self, {"ssh_port": 65_535} | dict.fromkeys(TIMES, LONGEST_S))
        for name in ("ssh_config", "ssh_identity", "ssh_known_hosts", "commands_folder", "conf_path"):
            if (path := getattr(self, name)) and not path.startswith("/"):
                raise ValidationError({name: "Give the whole path, from / on: commands run in the folders of jobs."})
        if self.cluster_name and not ONE_CLUSTER.match(self.cluster_name):
            raise ValidationError({"cluster_name": "Name one cluster: ids are those of one. Others are other targets."})
        if self.shell == ShellKind.SSH and not self.ssh_host:
            raise ValidationError({"ssh_host": "Over SSH a host is needed: user@host, or a name of the ssh_config."})
        if self.ssh_host and not HOST.match(self.ssh_host):
            raise ValidationError({"ssh_host": "It can't be the name of a host."})
        if self.poll_ceiling_s < self.poll_floor_s:
            raise ValidationError({"poll_ceiling_s": f"It is below the shortest, {self.poll_floor_s} s."})

    def site(self) -> "Site":
        """As the adapter wants it."""
        from jobs.executors.slurm.site import Site

        return Site(
            partition=self.partition, account=self.account, qos=self.qos, gres=self.gres, constraint=self.constraint,
            nodes=self.nodes, memory=self.memory, cluster=self.cluster_name, commands_folder=self.commands_folder,
            conf_path=self.conf_path,
        )  # fmt: skip

    def login(self) -> "Login | None":
        """How its host is reached; None where it is this machine."""
        from jobs.ssh import Login

        if self.shell != ShellKind.SSH:
            return None
        return Login(
            self.ssh_host, config_file=self.ssh_config, identity_file=self.ssh_identity,
            known_hosts=self.ssh_known_hosts, port=self.ssh_port, by_person=self.ssh_by_person,
            control_folder=str(settings.SSH_CONTROL_FOLDER), ownership=self.target.ownership(),
        )  # fmt: skip


class ClusterWatch(models.Model):
    """How the following of a cluster goes: whose turn it is, when it is asked next, and what is wrong with it."""

    target = models.OneToOneField("jobs.Target", on_delete=models.CASCADE, primary_key=True, related_name="watch")
    driver = models.CharField(max_length=120, blank=True, help_text="process identity of who deals with it now")
    driver_until = models.DateTimeField(null=True)
    nudged_at = models.DateTimeField(null=True)
    poll_due_at = models.DateTimeField(null=True)
    poll_interval_s = models.FloatField(default=0)
    failures = models.PositiveIntegerField(default=0, help_text="how often in a row it could not be asked")
    closed_until = models.DateTimeField(null=True, help_text="nothing is asked before, since it failed so often")
    submit_after = models.DateTimeField(null=True, help_text="nothing is submitted before, since it was busy")
    busy = models.PositiveIntegerField(default=0, help_text="how often in a row it took no job since it was busy")
    problem = models.CharField(max_length=1000, blank=True)
    sign_in = models.CharField(max_length=2000, blank=True, help_text="what a person types to open the connection")
    answered_at = models.DateTimeField(null=True)
    has_accounts = models.BooleanField(null=True)

    class Meta:
        verbose_name_plural = "cluster watches"

    def __str__(self) -> str:
        return self.problem or "well"
