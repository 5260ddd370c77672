"""What a cluster's answers mean for our jobs. What is not known is not done: a job that is not seen has not ended."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from jobs import logs
from jobs.custody import adopt, finish_job, say, why_cancelled
from jobs.endings import Ending
from jobs.executors.slurm.client import Slurm
from jobs.executors.slurm.endings import ending_of, is_of_a_twin, is_second_start, never_launched
from jobs.executors.slurm.errors import Refusal, SchedulerError
from jobs.executors.slurm.parse import Status, likeliest, split_native_id
from jobs.executors.slurm.scripts import TokenFolder
from jobs.executors.slurm.site import job_name
from jobs.executors.slurm.states import Standing
from jobs.faults import point
from jobs.models import Cluster, Job, Target
from jobs.patience import DATABASE_AWAY
from jobs.states import JOB, JobState
from record.errors import AdapterError, ConductorError, StaleState
from record.logkeys import about
from record.services import record_event

log = logging.getLogger(__name__)

EARLIER = timedelta(minutes=10)  # clocks differ, and sacct looks from a moment on
TAIL_LINES = 20
MOST_LAUNCHES = 3  # times that a job may fail to be launched; then the cluster's word is how it ended
NOT_SEEN = "The cluster knows nothing of it at the moment; what became of it is being found out."


class Follower:
    """Follows the jobs of one target. AdapterError where the cluster can't be asked: then nothing has changed."""

    def __init__(self, target: Target, cluster: Cluster, slurm: Slurm) -> None:
        self.target = target
        self.cluster = cluster
        self.slurm = slurm
        self.accounts: bool | None = None

    def follow(self, jobs: list[Job]) -> int:
        """Ask after all of them at once; how many went on. Those without a native id have nothing to ask for."""
        known = [job for job in jobs if job.native_id]  # ids come round again: several may have the same
        oldest = min(job.submitted_at or job.planned_at for job in jobs)
        sizes = {job.native_id: int(job.native_raw["tasks"]) for job in known if job.native_raw.get("tasks")}
        ids = list(dict.fromkeys(job.native_id for job in known))
        answer = self.slurm.poll(ids, since=oldest - EARLIER, tasks=sizes)
        self.accounts = answer.accounts
        point("polled", " ".join(job.token for job in jobs))
        moved, unsettled = 0, list[tuple[Job, Status | None]]()
        for job in known:
            status = _if_it_is(job, answer.statuses.get(job.native_id))
            if status is not None and status.meaning.standing in (Standing.WAITING, Standing.RUNNING):
                moved += self._try(job, partial(self._go_on, job, status))
            else:
                unsettled.append((job, status))
        return moved + self._settle(unsettled)

    def cancel(self, job: Job) -> int:
        """Ask the cluster to end it; it is called cancelled only once it is seen to have ended."""
        try:
            if self.slurm.cancel(job.native_id, name_of(job)):
                return 1
        except SchedulerError as error:
            if error.refusal != Refusal.PERMANENT:
                raise
            say(job, f"Not cancelled: {error.message}")
            return 0
        say(job, f"Not cancelled yet: it is still there. {why_cancelled(job)}")
        return 0

    def _go_on(self, job: Job, status: Status) -> int:
        """It waits or runs: write down which."""
        keep_raw(
            job, {"rows": status.raw, "submit_time": _text(status.submitted_at)}, drop=("provisional", "missing_since")
        )
        if job.state == JobState.LOST:
            apply(job, "find", message=f"{job.subject().label}: the cluster knows of it again")
        waiting = status.meaning.standing == Standing.WAITING
        event = {
            (True, JobState.RUNNING): "requeue", (True, JobState.UNKNOWN): "enqueue",
            (False, JobState.QUEUED): "start", (False, JobState.UNKNOWN): "start",
        }.get((waiting, JobState(job.state)))  # fmt: skip
        if not job.cancel_requested_at:
            say(job, status.reason)
        if event is None:
            return 0
        changes: dict[str, Any] = {"started_at": status.started_at or timezone.now()} if event == "start" else {}
        apply(job, event, message="" if event != "requeue" else f"{job.subject().label}: {status.reason}", **changes)
        return 1

    def _settle(self, found: list[tuple[Job, Status | None]]) -> int:
        """Those that ended, or are not seen, or are in an odd state: their token folders tell more."""
        if not found:
            return 0
        folders = self.slurm.read_folders([folder_of(job) for job, _ in found])[1]
        for folder in folders.values():
            require_job_folder(self.target, folder)
        moved = 0
        for job, status in found:
            moved += self._try(job, partial(self._settle_one, job, status, folders[folder_of(job)]))
        return moved

    def _try(self, job: Job, act: Callable[[], int]) -> int:
        """A job of which something odd is said must not keep the others from being followed."""
        with about(**job.log_keys()):
            try:
                return act()
            except StaleState as error:
                log.info("job %s: %s", job.token, error.message)
            except ConductorError as error:
                log.warning("job %s can't be settled: %s", job.token, error.message)
                say(job, f"It can't be settled just now: {error.message}")
            except DATABASE_AWAY:
                raise
            except Exception:
                log.exception("job %s could not be looked after; it is tried again", job.token)
        return 0

    def _settle_one(self, job: Job, status: Status | None, folder: TokenFolder) -> int:
        require_own_folder(folder)
        job_id = split_native_id(job.native_id)[0]
        if folder.owner_id not in ("", job_id) and (status is None or is_of_a_twin(status, folder, job_id)):
            self._adopt(job, folder.owner_id)
            return 1
        if status is not None and status.meaning.provisional and not self._agrees(job, status):
            return 0
        if status is not None and _is_odd(status) and not folder.ends_of(job_id):
            status = self.slurm.show(job.native_id) or status
        if status is not None and is_second_start(status, folder, job_id):
            return self._not_seen(job, folder)
        ending = ending_of(
            job_id=job_id, status=status, folder=folder, tasks=job.native_raw.get("tasks"),
            stopping=why_cancelled(job), log_tail=self._log_tail(job, status, folder),
        )  # fmt: skip
        if ending is not None and (words := self._never_launched(job, status, folder)):
            return self._hand_over_again(job, words)
        if ending is not None:
            if status is not None:
                keep_raw(job, {"rows": status.raw})
            self._keep_streams(job, folder, job_id)
            return int(finish_job(job, ending))
        if status is not None:
            return self._keep_odd(job, status)
        return self._not_seen(job, folder)

    def _never_launched(self, job: Job, status: Status | None, folder: TokenFolder) -> str:
        """In words, that the cluster ended a job which it had failed to launch; "" where it began, or was to end."""
        if status is None or job.cancel_requested_at or job.native_raw.get("tasks"):
            return ""
        if len(job.native_raw.get("forgotten", [])) >= MOST_LAUNCHES or not JOB.allows(job.state, "reclaim"):
            return ""
        return never_launched(status, folder, show=lambda: self._shown(job))

    def _shown(self, job: Job) -> Status | None:
        """All that the controller says of a job; None where it is to start jobs anew itself."""
        return None if self.cluster.requeue else self.slurm.show(job.native_id)

    def _agrees(self, job: Job, status: Status) -> bool:
        """Whether a second reading says the same long enough after the first: these ends may be taken back."""
        before = job.native_raw.get("provisional") or {}
        since = parse_datetime(before.get("since", "")) if before.get("event") == status.meaning.event else None
        now = timezone.now()
        if since is not None and now - since >= timedelta(seconds=self.cluster.agree_s):
            return True
        if since is None:
            first = {"event": status.meaning.event, "since": now.isoformat()}
            keep_raw(job, {"rows": status.raw, "provisional": first}, drop=("missing_since",))
        say(
            job, f"{status.meaning.words} It is believed if it still stands in {self.cluster.agree_s} s: it may change."
        )
        return False

    def _keep_odd(self, job: Job, status: Status) -> int:
        """A state from which nothing can be concluded: shown as it is, and nothing is changed."""
        if not status.meaning.known and job.native_raw.get("puzzle") != status.meaning.words:
            log.warning("job %s is in a state that is not known: %s", job.token, status.raw)
            message = f"{job.subject().label}: {status.meaning.words}"
            record_event(
                lab_id=job.lab_id, kind="job.puzzle", subject=job.subject(), message=message, data={"rows": status.raw}
            )
            keep_raw(job, {"puzzle": status.meaning.words})
        keep_raw(job, {"rows": status.raw}, drop=("missing_since", "provisional"))
        say(job, status.reason or status.meaning.words)
        return 0

    def _not_seen(self, job: Job, folder: TokenFolder) -> int:
        """Neither the cluster nor an exit file says anything of it."""
        now = timezone.now()
        since = parse_datetime(job.native_raw.get("missing_since", ""))
        if since is None:
            keep_raw(job, {"missing_since": now.isoformat()})
            if JOB.allows(job.state, "lose_sight"):
                apply(job, "lose_sight", reason=NOT_SEEN)
                return 1
            return 0
        away_s = (now - since).total_seconds()
        began = bool(folder.started or folder.absent)  # one that was taken away may have told of a start
        if job.cancel_requested_at and not began and away_s >= self.cluster.poll_floor_s:
            return self._close(job)
        if not (folder.owner or folder.absent) and away_s >= self.cluster.look_up_wait_s:
            return self._never_began(job)
        if job.state == JobState.UNKNOWN and away_s >= self.cluster.lost_after_s:
            return self._lose(job, folder)
        return 0

    def _lose(self, job: Job, folder: TokenFolder) -> int:
        left = "its token folder has been taken away" if folder.absent else "it left no exit code"
        words = (
            f"Nothing has been known of it for {self.cluster.lost_after_s // 60} minutes: the cluster does not "
            f"know job {job.native_id}, and {left}. Nothing is tried again until somebody decides; "
            "what is heard of it later still counts."
        )
        apply(job, "lose", reason=words, message=f"{job.subject().label}: {words}")
        return 1

    def _never_began(self, job: Job) -> int:
        """The cluster has forgotten it before it began: hand it over again. Its guard keeps a late one from running."""
        found = self.slurm.look_up(name_of(job), since=(job.submitted_at or job.planned_at) - EARLIER)
        if found:  # under another id than the one that was written down
            self._adopt(job, likeliest(found).job_id)
            return 1
        if not JOB.allows(job.state, "reclaim"):
            return 0
        return self._hand_over_again(job, "forgotten by the cluster before it began")

    def _hand_over_again(self, job: Job, words: str) -> int:
        """Give up an id under which nothing began, and have the job submitted anew."""
        self.slurm.forget(folder_of(job), job.native_id)
        keep_raw(job, {"forgotten": [*job.native_raw.get("forgotten", []), job.native_id]}, drop=("missing_since",))
        log.warning("job %s (%s) is handed over again: %s", job.token, job.native_id, words)
        apply(
            job, "reclaim", message=f"{job.subject().label}: {words}",
            generation=job.generation + 1, holder="", lease_until=timezone.now(), native_id="",
            reason=f"It is handed over again: {words}.",
        )  # fmt: skip
        return 1

    def _adopt(self, job: Job, job_id: str) -> None:
        """Follow it under another id; what was known of the one before (when it was submitted) is not of this one."""
        adopt(job, self.slurm.native_id_of(job_id))
        keep_raw(job, {}, drop=("missing_since", "submit_time", "provisional"))

    def _close(self, job: Job) -> int:
        """A job that is to be cancelled, is not seen, and has not begun: see to it that it never begins."""
        if self.slurm.close(folder_of(job)) != "closed":
            return 0
        return int(finish_job(job, Ending("cancel", why_cancelled(job))))

    def _keep_streams(self, job: Job, folder: TokenFolder, job_id: str) -> None:
        """The log files' names as the node knew them, where they differ from what the patterns came to."""
        paths = folder.streams.get(job_id)
        if paths and all(path.startswith("/") and "(deleted)" not in path for path in paths):
            job.stdout_path, job.stderr_path = paths
            Job.objects.live().filter(pk=job.pk).update(stdout_path=paths[0][:700], stderr_path=paths[1][:700])

    def _log_tail(self, job: Job, status: Status | None, folder: TokenFolder) -> str:
        """The end of its error log, where the kind of its end may stand there; "" where it can't be read."""
        if status is not None and (status.meaning.standing != Standing.ENDED or status.meaning.event == "succeed"):
            return ""
        if status is None and not folder.exits:
            return ""
        try:
            return logs.tail(self.slurm.shell, job.stderr_path, lines=TAIL_LINES).text
        except ConductorError:
            return ""


def apply(job: Job, event: str, *, message: str = "", **changes: Any) -> None:
    """Move a job by an event of the table, of this generation only. StaleState where it was taken over."""
    with transaction.atomic():
        JOB.apply(
            job, event, lab_id=job.lab_id, subject=job.subject(), message=message,
            data={"native_id": job.native_id, "generation": job.generation}, where={"generation": job.generation},
            **changes,
        )  # fmt: skip


def name_of(job: Job) -> str:
    """The name under which a job is known to the cluster: ours, or that which others gave it."""
    return job.native_raw.get("called") or job_name(phase=job.script_name.rsplit(".", 1)[0], token=job.token)


def folder_of(job: Job) -> str:
    """Its token folder."""
    return f"{job.job_folder or job.target.job_folder}/{job.token}"


def require_job_folder(target: Target, folder: TokenFolder) -> None:
    """AdapterError where the target's job folder can't be reached: then nothing can be told of any job."""
    if folder.unreachable and folder.job_folder == target.job_folder:
        raise AdapterError(f"The job folder {folder.job_folder} can't be reached.", transient=True)


def require_own_folder(folder: TokenFolder) -> None:
    """ConductorError where one job's notes lie in another folder, which can't be reached: it waits, others go on."""
    if folder.unreachable:
        raise ConductorError(f"{folder.job_folder}, the target's job folder when it was planned, can't be reached.")


def keep_raw(job: Job, facts: dict[str, Any], *, drop: tuple[str, ...] = ()) -> None:
    """Keep raw answers with a job; written only where they changed."""
    raw = {name: value for name, value in (job.native_raw | facts).items() if name not in drop and value is not None}
    if raw != job.native_raw:
        job.native_raw = raw
        Job.objects.live().filter(pk=job.pk, generation=job.generation).update(native_raw=raw)


def _if_it_is(job: Job, status: Status | None) -> Status | None:
    """The status, if it is of this job: ids come round again, and a later job under the same id is another's."""
    if status is None or status.name != name_of(job):
        return None
    first = parse_datetime(job.native_raw.get("submit_time", ""))
    if first is not None and status.submitted_at is not None and status.submitted_at < first:
        return None
    return status


def _is_odd(status: Status) -> bool:
    """A failure of which only the controller can still say by which code or signal."""
    return status.meaning.standing == Standing.ENDED and status.meaning.event == "fail" and status.exit_code is None


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
