"""Deals with the jobs of one cluster, in one go: cancels, asks after those that are away, submits what is due.

One at a time for each cluster (a lease in its watch row), in short tasks. Whatever leaves the process does so outside
any transaction, and what comes back is written by compare-and-set, so that a task may run twice, late or never.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from jobs import processes
from jobs.alongside import companions
from jobs.custody import say
from jobs.drain import draining
from jobs.executors.slurm.client import Slurm
from jobs.following import Follower
from jobs.hosts import this_host
from jobs.models import Cluster, ClusterWatch, Job, Target, TargetKind
from jobs.nudges import nudge, waits
from jobs.patience import DATABASE_AWAY
from jobs.shells import cluster_of, shell_for
from jobs.states import JobState
from jobs.submitting import Submitter
from jobs.sweep import handle_unhandled_at
from record.errors import AdapterError, ConductorError, StaleState
from record.logkeys import about

log = logging.getLogger(__name__)

TURN_S = 240  # longer than a submission may take; a dead driver of this host is noticed at once
EACH_S = 20.0  # for calls that are made job by job: then the rest is left to the next task
SUBMITTING_S = 20.0  # then the rest is left to the next task
LONGEST_CLOSED_S = 300
NUDGE_AGAIN_S = 10  # a nudge that was taken, but of which nothing came, is sent again
TASK = "jobs.tasks.drive_cluster"


def nudge_clusters() -> int:
    """Have the task cluster deal with each cluster that has something due; how many were nudged."""
    return sum(_nudge(target_id) for target_id in _due_targets())


def drive_cluster(target_id: int) -> int:
    """Do what is due at a cluster; how many jobs went on. Nothing where another is at it, or it is to be left alone."""
    target = Target.objects.filter(pk=target_id, kind=TargetKind.SLURM, host=this_host()).first()
    if target is None or not _take_turn(target):
        return 0
    try:
        with about(target=target.name):
            return _turn(target)
    finally:
        mine = ClusterWatch.objects.filter(pk=target.pk, driver=processes.own_identity())
        mine.update(driver="", driver_until=None, nudged_at=None)


def _turn(target: Target) -> int:
    """A turn, and a note of how it went. Whatever goes wrong, the cluster is then left alone for a time that grows."""
    watch = ClusterWatch.objects.get(pk=target.pk)
    try:
        moved = _Round(target, watch).run()
    except DATABASE_AWAY:
        raise
    except ConductorError as error:
        _note_failure(target, watch, error.message, sign_in=str(error.extra.get("sign_in", "")))
        return 0
    except Exception as error:
        log.exception("target %s could not be dealt with", target.name)
        words = f"Conductor itself failed there ({type(error).__name__}); its log says more."
        _note_failure(target, watch, words)
        return 0
    _note_well(target)
    return moved


class _Round:
    """One turn at one cluster. AdapterError where it can't be asked; BadInput where how to is not set."""

    def __init__(self, target: Target, watch: ClusterWatch) -> None:
        self.target = target
        self.cluster = cluster_of(target)
        self.watch = watch
        self.slurm = Slurm(shell_for(target), self.cluster.site())
        self.follower = Follower(target, self.cluster, self.slurm)
        self.submitter = Submitter(target, self.cluster, self.slurm)

    def run(self) -> int:
        """Do what is due; how many jobs went on."""
        self.began_at = timezone.now()
        if cancelling := self._cancelling():
            self.watch.poll_due_at = None  # what becomes of it is seen at once, and then at the usual times
        moved = self._each(cancelling, self.follower.cancel)
        if self._poll_is_due():
            moved += self._poll()
        moved += handle_unhandled_at(self.target.pk)
        moved += sum(companion.act(self.target.pk) for companion in companions())
        if resumed := self._each(self._resuming(), self.submitter.resume):
            self._poll_soon()
        moved += resumed + self._submit()
        return moved

    def _poll(self) -> int:
        jobs = list(
            Job.objects.away()
            .filter(target=self.target)
            .exclude(state=JobState.SUBMITTING)
            .defer("script", "environment")
        )
        for job in jobs:  # there may be thousands: no row each of the one target
            job.target = self.target
        if not jobs:
            ClusterWatch.objects.filter(pk=self.target.pk).update(poll_due_at=None)
            return 0
        moved = self.follower.follow(jobs)
        floor, ceiling = self.cluster.poll_floor_s, self.cluster.poll_ceiling_s
        interval = floor if moved else min(ceiling, max(floor, self.watch.poll_interval_s * 1.5))
        self._note_answer(interval)
        return moved

    def _submit(self) -> int:
        """Claim and hand over one after the other, so that a long queue is claimed only as far as it is submitted."""
        began, moved = monotonic(), 0
        while monotonic() - began < SUBMITTING_S and self._takes_jobs():
            if not moved:
                if not Job.objects.planned().filter(target=self.target).exists():
                    break
                self.slurm.shell.make_folder(self.target.job_folder)  # before a claim: is it there to be talked to?
            job = self.submitter.claim()
            if job is None:
                break
            moved += self._each([job], self.submitter.submit)
            self._poll_soon()
        return moved

    def _poll_soon(self) -> None:
        """Ask after what was submitted as soon as a cluster may be asked again, and from then on often."""
        soon = timezone.now() + timedelta(seconds=self.cluster.poll_floor_s)
        watch = ClusterWatch.objects.filter(pk=self.target.pk)
        watch.filter(Q(poll_due_at=None) | Q(poll_due_at__gt=soon)).update(poll_due_at=soon)
        watch.update(poll_interval_s=0)

    def _each(self, jobs: list[Job], act: Callable[[Job], int]) -> int:
        """A job that can't be dealt with must not stop the others; a cluster that can't be reached stops all.

        After `EACH_S` the rest is left to the next turn, so that a slow cluster is still asked what has ended.
        """
        began, moved = monotonic(), 0
        for job in jobs:
            with about(**job.log_keys()):
                moved += self._try(job, act)
            if monotonic() - began > EACH_S:
                break
        return moved

    def _try(self, job: Job, act: Callable[[Job], int]) -> int:
        try:
            return int(act(job))
        except StaleState as error:
            log.info("job %s: %s", job.token, error.message)
        except DATABASE_AWAY:
            raise
        except ConductorError as error:
            if isinstance(error, AdapterError) and error.transient:
                raise
            log.warning("job %s can't be looked after: %s", job.token, error.message)
            say(job, f"It can't be looked after just now: {error.message}")
        except Exception:
            log.exception("job %s could not be looked after; it is tried again", job.token)
        return 0

    def _cancelling(self) -> list[Job]:
        """Those that were asked to end since the last answer; at the times of polls, all that have not ended yet.

        In any order: those that stay must not take up the time of the others.
        """
        wanted = Job.objects.away().filter(_asked_to_end(self.watch), target=self.target)
        if self._poll_is_due():
            wanted = Job.objects.away().filter(target=self.target, cancel_requested_at__isnull=False)
        return list(
            wanted.exclude(state=JobState.SUBMITTING).exclude(native_id="").select_related("target").order_by("?")
        )

    def _resuming(self) -> list[Job]:
        return list(Job.objects.away().filter(target=self.target, state=JobState.SUBMITTING).select_related("target"))

    def _poll_is_due(self) -> bool:
        return self.watch.poll_due_at is None or self.watch.poll_due_at <= timezone.now()

    def _takes_jobs(self) -> bool:
        watch = ClusterWatch.objects.get(pk=self.target.pk)
        return watch.submit_after is None or watch.submit_after <= timezone.now()

    def _note_answer(self, interval_s: float) -> None:
        """An answer is as old as its turn: what is asked for since, such as a job's end, is not in it."""
        now = timezone.now()
        accounts = {} if self.follower.accounts is None else {"has_accounts": self.follower.accounts}
        ClusterWatch.objects.filter(pk=self.target.pk).update(
            answered_at=self.began_at,
            poll_interval_s=interval_s,
            poll_due_at=now + timedelta(seconds=interval_s),
            **accounts,
        )


def _note_well(target: Target) -> None:
    """It could be asked; what it says of being busy stays until it takes a job again."""
    ill = ClusterWatch.objects.filter(pk=target.pk).exclude(failures=0, problem="")
    ill.filter(submit_after=None).update(problem="")
    ill.update(failures=0, closed_until=None, sign_in="")


def _note_failure(target: Target, watch: ClusterWatch, problem: str, *, sign_in: str = "") -> None:
    """Leave the cluster alone for a time that grows: nothing that is known of its jobs changes."""
    failures = watch.failures + 1
    floor_s = (Cluster.objects.filter(pk=target.pk).first() or Cluster()).poll_floor_s
    wait_s = floor_s if sign_in else floor_s * 2 ** min(failures - 1, 8)
    log.warning("target %s can't be asked (%d times in a row): %s", target.name, failures, problem)
    ClusterWatch.objects.filter(pk=target.pk).update(
        failures=failures, problem=problem[:1000], sign_in=sign_in[:2000],
        closed_until=timezone.now() + timedelta(seconds=min(LONGEST_CLOSED_S, wait_s)),
    )  # fmt: skip


def _due_targets() -> list[int]:
    """Targets of this host with something to do now. A few queries, and one where no cluster has a live job."""
    here = {"target__kind": TargetKind.SLURM, "target__host": this_host()}
    live = set(Job.objects.live().filter(**here).order_by().values_list("target_id", flat=True).distinct())
    asked = set(Job.objects.unhandled().filter(**here).order_by().values_list("target_id", flat=True).distinct())
    asked = asked.union(*(companion.due() for companion in companions()))
    ids = live | asked
    if not ids:
        return []
    watches = {watch.pk: watch for watch in ClusterWatch.objects.filter(pk__in=ids)}
    targets = Target.objects.filter(pk__in=ids, host=this_host())
    now = timezone.now()
    return [
        each.pk
        for each in targets
        if _is_due(each, watches.get(each.pk) or ClusterWatch(pk=each.pk), now, asked=each.pk in asked)
    ]


def _is_due(target: Target, watch: ClusterWatch, now: datetime, *, asked: bool) -> bool:
    if watch.closed_until and watch.closed_until > now:
        return False
    if watch.nudged_at and watch.nudged_at > now - timedelta(seconds=NUDGE_AGAIN_S):
        return False
    if asked or (watch.driver and processes.of_this_boot(watch.driver) and not processes.is_alive(watch.driver)):
        return True
    away = Job.objects.away().filter(target=target)
    submitting = Q(state=JobState.SUBMITTING) & (Q(lease_until__lte=now) | Q(cancel_requested_at__isnull=False))
    if away.filter(submitting | (_asked_to_end(watch) & ~Q(state=JobState.SUBMITTING))).exists():
        return True
    count = away.exclude(state=JobState.SUBMITTING).count()
    if count and (watch.poll_due_at is None or watch.poll_due_at <= now):
        return True
    if target.paused or target.archived_at or (watch.submit_after and watch.submit_after > now):
        return False
    waits = away.count() < target.slots and Job.objects.planned().filter(target=target).exists()
    return waits and not draining()


def _asked_to_end(watch: ClusterWatch) -> Q:
    """Jobs that were asked to end after the cluster was last asked after them."""
    if watch.answered_at is None:
        return Q(cancel_requested_at__isnull=False)
    return Q(cancel_requested_at__gt=watch.answered_at)


def _nudge(target_id: int) -> int:
    now = timezone.now()
    with transaction.atomic():
        ClusterWatch.objects.get_or_create(pk=target_id)
        if waits(TASK, target_id):
            return 0
        free = Q(nudged_at=None) | Q(nudged_at__lte=now - timedelta(seconds=NUDGE_AGAIN_S))
        if ClusterWatch.objects.filter(free, pk=target_id).update(nudged_at=now) != 1:
            return 0
        nudge(TASK, target_id)
    return 1


def _take_turn(target: Target) -> bool:
    """Become the one who deals with a cluster; a turn ends with its process, or when its time is over."""
    now, own = timezone.now(), processes.own_identity()
    ClusterWatch.objects.get_or_create(pk=target.pk)
    watch = ClusterWatch.objects.get(pk=target.pk)
    if watch.closed_until and watch.closed_until > now:
        return False
    gone = not watch.driver or (processes.of_this_boot(watch.driver) and not processes.is_alive(watch.driver))
    if not gone and watch.driver != own and watch.driver_until and watch.driver_until > now:
        return False
    seen = ClusterWatch.objects.filter(pk=target.pk, driver=watch.driver, driver_until=watch.driver_until)
    return seen.update(driver=own, driver_until=now + timedelta(seconds=TURN_S)) == 1
