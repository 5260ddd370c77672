"""Hands jobs over to a cluster, each exactly once whatever dies in between."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.utils import timezone

from jobs import processes
from jobs.custody import claim_due, finish_job, kept_back, let_go, take_over, waits_for_leave, why_cancelled
from jobs.endings import Ending
from jobs.executors import job_environment
from jobs.executors.slurm import scripts
from jobs.executors.slurm.client import Slurm
from jobs.executors.slurm.errors import Refusal, SchedulerError, refusal_of
from jobs.executors.slurm.parse import array_size, likeliest
from jobs.executors.slurm.scripts import TokenFolder
from jobs.executors.slurm.site import SlurmOrder
from jobs.executors.slurm.states import Standing
from jobs.faults import point
from jobs.following import (
    EARLIER,
    apply,
    folder_of,
    keep_raw,
    name_of,
    require_job_folder,
    require_own_folder,
)
from jobs.models import Cluster, ClusterWatch, Job, Target
from jobs.parse import sbatch_options
from jobs.shells import environment_of, followed_within_roots
from record.errors import AdapterError, BadInput

log = logging.getLogger(__name__)

LONGEST_BUSY_S = 300
LOOK_UPS = 2  # that many empty answers, before what may have been submitted is submitted again


class Submitter:
    """Submits the jobs of one target. AdapterError where the cluster can't be reached: then nothing has changed."""

    def __init__(self, target: Target, cluster: Cluster, slurm: Slurm) -> None:
        self.target = target
        self.cluster = cluster
        self.slurm = slurm
        self.holder = processes.own_identity()
        self._base: Mapping[str, str] | None = None

    def claim(self) -> Job | None:
        """Take up the next planned job that has a slot, or None."""
        jobs = claim_due(targets=[self.target], holder=self.holder, most=1)
        if not jobs:
            return None
        point("claimed", jobs[0].token)
        return jobs[0]

    def submit(self, job: Job) -> int:
        """Hand a job over that is ours; what the cluster refuses for good has failed."""
        try:
            order = self._order(job)
            followed_within_roots(self.target, [job.work_dir])
            handed = self.slurm.submit(order)
            point("handed_over", job.token)
        except BadInput as error:
            return self._give_up(job, Ending("fail", f"The job could not be started. {error.message}"))
        except SchedulerError as error:
            return self._refused(job, error)
        except AdapterError as error:
            if error.transient:
                self._wait_for_a_look(job, error.message)
                raise
            return self._give_up(job, Ending("fail", f"The job could not be started. {error.message}"))
        if handed.native_id:
            return self._record(job, order, handed.native_id)
        return self.resume(job, expired=True)

    def resume(self, job: Job, *, expired: bool = False) -> int:
        """A job between claim and id: its submitter may have died anywhere. Look first; submit again only if sure."""
        lease_over = expired or job.lease_until is None or job.lease_until <= timezone.now()
        orphan = processes.of_this_boot(job.holder) and not processes.is_alive(job.holder)
        if not (lease_over or orphan or job.cancel_requested_at):
            return 0
        if waits_for_leave(job) and kept_back(job):
            return 0
        take_over(job, holder=self.holder)
        now, folders = self.slurm.read_folders([folder_of(job)])
        folder = folders[folder_of(job)]
        require_job_folder(self.target, folder)
        require_own_folder(folder)
        if folder.owner_id:
            return self._record(job, self._order(job), folder.owner_id)
        forgotten = job.native_raw.get("forgotten", [])
        if known := [each for each in folder.known_ids if each not in forgotten]:
            return self._record(job, self._order(job), known[0])
        if job.cancel_requested_at or folder.closed:
            return self._give_up(job, Ending("cancel", why_cancelled(job) or "Cancelled."))
        if not folder.attempts:
            return self._look_and_submit(
                job, sure=folder.absent is False or job.generation <= 2, now=now, folder=folder
            )
        return self._after(job, folder, now)

    def _after(self, job: Job, folder: TokenFolder, now: datetime) -> int:
        """The last attempt left no id: by what sbatch said of it, or by looking, find out whether it submitted."""
        last = folder.attempts[-1]
        if last.native_id:  # the cluster has forgotten it, or it would have been taken up again
            return self._look_and_submit(job, sure=True, now=now, folder=folder)
        refusal = refusal_of(last.said) if last.code is not None else Refusal.AMBIGUOUS
        if last.code is not None and refusal == Refusal.PERMANENT:
            return self._give_up(job, Ending("fail", f"SLURM took no job: {last.said}"))
        return self._look_and_submit(
            job, sure=last.code is not None and refusal == Refusal.BUSY, now=now, folder=folder
        )

    def _look_and_submit(self, job: Job, *, sure: bool, now: datetime, folder: TokenFolder) -> int:
        """Submit again where nothing can have been submitted, or where the cluster has said so twice, late enough."""
        if not sure:
            found = self.slurm.look_up(name_of(job), since=job.planned_at - EARLIER)
            if found:
                return self._record(job, self._order(job), likeliest(found).job_id)
            began = max((attempt.began_at for attempt in folder.attempts), default=now)
            left_s = self.cluster.look_up_wait_s - (now - began).total_seconds()
            looked = int(job.native_raw.get("empty_look_ups", 0)) + (1 if left_s <= 0 else 0)
            keep_raw(job, {"empty_look_ups": looked})
            if looked < LOOK_UPS:
                wait_s = max(left_s, self.cluster.poll_floor_s)
                words = "It is not known whether it was submitted: the cluster is asked for it by name."
                let_go(job, words, wait_s=wait_s)
                return 0
        if kept_back(job):
            return 0
        keep_raw(job, {}, drop=("empty_look_ups",))
        return self.submit(Job.objects.select_related("target").get(pk=job.pk))

    def _refused(self, job: Job, error: SchedulerError) -> int:
        if error.refusal == Refusal.PERMANENT:
            return self._give_up(job, Ending("fail", error.message))
        if error.refusal == Refusal.BUSY:
            let_go(job, error.message)
            self._open_later(error.message)
            return 0
        self._wait_for_a_look(job, error.message)
        self._open_later(error.message)
        return 0

    def _open_later(self, problem: str) -> None:
        """The breaker for submissions: others would be refused as well."""
        watch = ClusterWatch.objects.get(pk=self.target.pk)
        wait_s = min(LONGEST_BUSY_S, self.cluster.poll_floor_s * 2 ** min(watch.busy, 8))
        ClusterWatch.objects.filter(pk=self.target.pk).update(
            busy=watch.busy + 1, submit_after=timezone.now() + timedelta(seconds=wait_s), problem=problem[:1000]
        )

    def _wait_for_a_look(self, job: Job, words: str) -> None:
        words = f"{words} Whether it was submitted all the same is looked up."
        let_go(job, words, wait_s=self.cluster.poll_floor_s)

    def _give_up(self, job: Job, ending: Ending) -> int:
        """End a job that has not begun; where it may have been submitted, see to it first that it never begins."""
        if job.generation > 1 or ending.event == "cancel":
            owner = self.slurm.close(folder_of(job))
            if owner != "closed":
                return self._record(job, self._order(job), owner.partition(".")[0])
            self._cancel_ghosts(job)
        return int(finish_job(job, ending))

    def _cancel_ghosts(self, job: Job) -> None:
        """Clear submissions of a closed job out of the queue; one that stays there ends as soon as it begins."""
        for status in self.slurm.look_up(name_of(job), since=job.planned_at - EARLIER):
            if status.meaning.standing == Standing.ENDED:
                continue
            try:
                self.slurm.cancel(status.job_id, status.name)
            except SchedulerError as error:
                if error.transient:
                    raise
                log.warning("job %s: its submission %s stays in the queue: %s", job.token, status.job_id, error.message)

    def _record(self, job: Job, order: SlurmOrder, native_id: str) -> int:
        native_id = self.slurm.native_id_of(native_id)
        out, err = scripts.log_paths(order, native_id)
        apply(
            job, "enqueue", native_id=native_id, submitted_at=timezone.now(), reason="", stdout_path=out[:700],
            stderr_path=err[:700],
        )  # fmt: skip
        size = array_size(sbatch_options(order.script).get("array", ""))
        keep_raw(job, {"tasks": size}, drop=("empty_look_ups", "missing_since", "provisional", "submit_time"))
        ClusterWatch.objects.filter(pk=self.target.pk).exclude(busy=0, submit_after=None).update(
            busy=0, submit_after=None
        )
        point("recorded", job.token)
        log.info("job %s (%s) is job %s of target %s", job.token, job.name, native_id, self.target.name)
        return 1

    def _order(self, job: Job) -> SlurmOrder:
        return SlurmOrder(
            token=job.token, generation=job.generation, script=job.script, script_name=job.script_name,
            work_dir=job.work_dir, job_folder=job.job_folder or self.target.job_folder,
            environment=self._environment(job), environment_lines=self.target.environment_lines,
            stdout_path=job.stdout_path, stderr_path=job.stderr_path, job_name=name_of(job),
            time_limit_s=job.time_limit_s, requeue=self.cluster.requeue, ownership=self.target.ownership(),
        )  # fmt: skip

    def _environment(self, job: Job) -> dict[str, str]:
        """What travels with a job; what the account has is asked once a turn."""
        if self._base is None:
            self._base = environment_of(self.target)
        return job_environment(self._base, job.environment, cpus=job.cpus, token=job.token)
