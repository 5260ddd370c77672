"""The task cluster: started as a process group of its own, watched by a pulse, and started anew when it is hung.

Hung is: a pulse task lies untaken for 60 s while the database answers and no worker is at work. That happens when
an idle worker dies while it holds the queue's lock: the cluster then looks well and runs nothing, for ever.
"""

import json
import logging
import os
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from uuid import NAMESPACE_DNS, uuid5

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.utils import timezone

from conductor_site.conduct import busy
from conductor_site.conduct.busy import CLUSTER_VARIABLE
from jobs import processes
from jobs.hosts import this_host
from jobs.models import Pulse
from jobs.nudges import nudge, waits
from jobs.patience import Patience
from jobs.shells import write_whole
from record.models import Lab
from record.services import Subject, record_event

log = logging.getLogger(__name__)

STOP_S = 20.0
PULSE, PULSE_S = "conductor_site.tasks.pulse", 30
SWEEP_NAME = "conductor: what is due, each minute"


class TaskCluster:
    """Starts, watches and stops the cluster of this host."""

    def __init__(self) -> None:
        self.hung_after_s = float(settings.CLUSTER_HUNG_AFTER_S)
        self.ask_s = self.hung_after_s / 4
        self.look_s = self.hung_after_s / 12
        self.name = f"{this_host()}:{secrets.token_hex(8)}"
        self.identity = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._patience = Patience(longest_s=60)
        self._looked_s = 0.0
        self._untaken_s = 0.0
        self._asked_s = float("-inf")
        self._asked = False  # and not answered yet
        self._beat_at: datetime | None = None

    def start(self) -> None:
        """End what a predecessor left behind, and start the cluster and its minute schedule."""
        self._reap_predecessor()
        self._spawn()

    def watch(self) -> None:
        """Every few seconds: is it there, does it take its pulse? Raises DatabaseError where the database is away."""
        now_s = processes.now_s()
        since_s = now_s - self._looked_s
        if since_s < self.look_s:
            return
        self._looked_s = now_s
        if self._process is None or self._process.poll() is not None:
            return self._start_again("it has ended")
        working = bool(busy.busy_workers())
        try:
            beaten = self._has_beaten()
            if not working:
                self._ask(now_s)
        except DatabaseError:
            self._untaken_s = 0.0  # the cluster can't take what the database doesn't give
            raise
        # A long gap is ours (we were stopped), not the cluster's: only times in which we looked count.
        waited = self._asked and not beaten and not working
        self._untaken_s = self._untaken_s + min(since_s, self.hung_after_s / 4) if waited else 0.0
        if self._untaken_s >= self.hung_after_s:
            self._mend()

    def stop(self) -> None:
        """SIGTERM to its main process, which lets running tasks end; then whatever is left is killed."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            log.warning("the task cluster did not stop within %g s; it is killed", STOP_S)
        self._kill()
        with suppress(DatabaseError):
            Pulse.objects.filter(cluster=self.name).delete()

    def _spawn(self) -> None:
        self._untaken_s, self._asked_s, self._asked = 0.0, float("-inf"), False
        self._looked_s = processes.now_s()
        busy.forget()
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, str(settings.BASE_DIR / "manage.py"), "qcluster", "--skip-checks"],
            env=os.environ | {CLUSTER_VARIABLE: self.name},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.identity = processes.identity(self._process.pid)
        note = json.dumps({"name": self.name, "identity": self.identity})
        try:
            write_whole(str(_note_path()), note.encode(), sync=False)
        except OSError as error:  # a successor must be able to find it, so it can't be left running
            log.error("no task cluster: %s can't be written (%s); trying again", _note_path(), error.strerror)
            self._kill()
            self._process = None
            return
        log.info("task cluster %s started as pid %d", self.name, self._process.pid)

    def _start_again(self, why: str) -> None:
        if not self._patience.allows("start"):
            return
        self._patience.failed("start")
        log.error("the task cluster is started anew: %s", why)
        self._kill()
        self._spawn()

    def _mend(self) -> None:
        message = (
            f"The task cluster on {this_host()} took no task for {self._untaken_s:.0f} s though no worker was at work: "
            "it was killed and started anew."
        )
        log.error(message)
        self._kill()
        self._spawn()
        self._tell(message)

    def _kill(self) -> None:
        if left := processes.end_family(self.identity, self._mark(self.name), patience_s=5):
            log.error("processes of the task cluster can't be killed: %s", left)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1)

    def _reap_predecessor(self) -> None:
        """Orphans of a killed predecessor go on executing tasks: end them before ours begin."""
        try:
            note = json.loads(_note_path().read_text())
        except (OSError, ValueError):
            return
        if left := processes.end_family(note["identity"], self._mark(note["name"]), patience_s=5):
            log.error("processes of the task cluster before this one can't be killed: %s", left)
        with suppress(DatabaseError):  # a row too many harms nobody, and jobs are not to wait for it
            Pulse.objects.filter(cluster=note["name"]).delete()

    def _has_beaten(self) -> bool:
        """Whether a worker took a pulse since the last look."""
        beat_at = Pulse.objects.filter(cluster=self.name).values_list("beat_at", flat=True).first()
        if beat_at == self._beat_at:
            return False
        self._beat_at, self._asked = beat_at, False
        return True

    def _ask(self, now_s: float) -> None:
        """Put a pulse task into the queue, every 15 s (a quarter of the time after which it is hung)."""
        if now_s - self._asked_s < self.ask_s:
            return
        with transaction.atomic():
            ensure_sweep()
            Pulse.objects.update_or_create(cluster=self.name, defaults={"asked_at": timezone.now()})
            if not waits(PULSE, self.name):
                nudge(PULSE, self.name, timeout_s=PULSE_S)
        self._asked_s, self._asked = now_s, True

    def _tell(self, message: str) -> None:
        subject = Subject("cluster", uuid5(NAMESPACE_DNS, this_host()), f"task cluster on {this_host()}")
        for lab in Lab.objects.all():
            record_event(lab_id=lab.pk, kind="cluster.hung", subject=subject, message=message)

    def _mark(self, name: str) -> str:
        return f"{CLUSTER_VARIABLE}={name}"


def ensure_sweep() -> None:
    """See to it that the minute sweep of this installation is scheduled, once. Call it inside a transaction."""
    from django_q.models import Schedule

    own = {"name": SWEEP_NAME, "cluster": settings.INSTALLATION}
    if not Schedule.objects.filter(**own).exists():
        Schedule.objects.create(
            **own, func="conductor_site.tasks.sweep", schedule_type=Schedule.MINUTES, minutes=1, repeats=-1
        )


def _note_path() -> Path:
    return Path(settings.DATA_DIR) / "cluster.json"
