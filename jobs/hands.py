"""The hands of `conduct`: runs and follows the jobs of this host's local targets."""

import logging
import os
import selectors
from collections.abc import Callable
from contextlib import suppress

from django.conf import settings
from django.utils import timezone

from jobs import custody, processes
from jobs.endings import Ending, ending_of
from jobs.environment import allowed_environment
from jobs.executors import TOKEN_VARIABLE, Order, Seen, Sighting, executor_for, job_environment
from jobs.executors.local import reap_children
from jobs.faults import point
from jobs.models import Job, Target
from jobs.patience import DATABASE_AWAY, Patience
from jobs.states import JobState
from record.errors import AdapterError, StaleState
from record.logkeys import about
from record.prepared import Prepared

log = logging.getLogger(__name__)

MOST_CLAIMS = 5
ENDED = object()  # what the callbacks of pidfds answer
MIB = 1024 * 1024
RESTARTED = (
    "The machine was restarted while this job was running (or being started): how far it came is not known. "
    "Look at its outputs and try it again."
)

# A job to be followed, without the script, which nobody needs any more.
_FOLLOWED = Prepared(lambda pk: Job.objects.live().select_related("target").defer("script").filter(pk=pk).order_by())

FOLDER_GONE = (
    "was taken away while the job was running: whether and how its script ended is not known. "
    "Look at its outputs and try it again."
)


class Hands:
    """Claims, starts, follows and ends jobs. Ends are heard through pidfds in `selector`; all else on `round`s."""

    def __init__(self, *, host: str, selector: selectors.BaseSelector) -> None:
        self.host = host
        self.holder = processes.own_identity()
        self.executor = executor_for("local")
        self.selector = selector
        self.targets: list[Target] = []
        self._pidfds: dict[int, int] = {}
        self._kill_at: dict[int, float] = {}
        self._taken: list[Job] = []  # claimed as they were planned, and still to be handed over
        self._unsure: set[int] = set()  # handed over, but the database failed before it was written down
        self._patience = Patience(longest_s=60)
        self._carriers = processes.Carriers(TOKEN_VARIABLE)

    def know_targets(self) -> None:
        """Read this host's targets anew, once a tick; whether one is paused is asked at each claim."""
        self.targets = custody.local_targets(self.host)

    def start_due(self) -> int:
        """Claim what is planned and has a slot, and start it and what was taken before; how many those are."""
        taken, self._taken = self._taken, []
        self._start(taken)  # first: they run while we ask
        claimed = custody.claim_due(targets=self.targets, holder=self.holder) if self.targets else []
        self._start(claimed)
        return len(taken) + len(claimed)

    def take(self, job: Job) -> None:
        """Have a job started that was claimed for us in the transaction that planned it."""
        self._taken.append(job)

    def follow(self) -> int:
        """Once a tick: look after everything that is away, from whatever life of ours it stems; how much that is."""
        reap_children()
        if not self.targets:
            return 0
        away = Job.objects.away().filter(target__in=[target.pk for target in self.targets])
        jobs = list(away.select_related("target").defer("script").order_by("id"))
        self._forget_all_but({job.pk for job in jobs})
        for job in jobs:
            if self._patience.allows(job.pk):
                self._guarded(job, self._look_after)
        running = [job for job in jobs if job.state == JobState.RUNNING and not job.ending]
        self._watch_logs(running)
        self._watch_memory(running)
        return len(jobs)

    def close(self) -> None:
        """Let go of everything; the jobs go on."""
        self._forget_all_but(set())

    def _guarded(self, job: Job, act: Callable[[Job], None]) -> None:
        """One row that can't be dealt with must not stop the others; it is tried again, later each time."""
        with about(**job.log_keys()):
            self._try(job, act)

    def _try(self, job: Job, act: Callable[[Job], None]) -> None:
        try:
            act(job)
        except StaleState as error:
            log.info("job %s: %s", job.token, error.message)
        except AdapterError as error:
            log.warning("job %s can't be looked after: %s", job.token, error.message)
            custody.say(job, f"It can't be looked after just now: {error.message}")
            self._patience.failed(job.pk)
        except DATABASE_AWAY:
            raise
        except Exception:
            log.exception("job %s could not be looked after; it is tried again", job.token)
            self._patience.failed(job.pk)
        else:
            self._patience.succeeded(job.pk)

    # Starting

    def _start(self, claimed: list[Job]) -> None:
        for job in claimed:
            point("claimed", job.token)
            self._guarded(job, self._submit)

    def _submit(self, job: Job) -> None:
        self._unsure.add(job.pk)
        self._hand_over(job)
        self._unsure.discard(job.pk)

    def _hand_over(self, job: Job) -> None:
        try:
            native_id = self.executor.submit(order_of(job, with_script=True))
        except AdapterError as error:
            if error.transient:
                custody.wait_longer(job, error.message)
            else:
                self._give_up(job, Ending("fail", f"The job could not be started. {error.message}"))
            return
        custody.record_running(job, native_id)
        self._watch(job)

    def _give_up(self, job: Job, ending: Ending) -> None:
        """End a job that has not begun, and see to it that nobody who comes late begins it."""
        if job.generation > 1 or ending.event == "cancel":
            before = self.executor.close(order_of(job))
            if before.seen != Seen.CLOSED:
                custody.record_running(job, before.native_id)
                return self._watch(job)
        custody.finish_job(job, ending)

    def _resume_submitting(self, job: Job) -> None:
        """A job between claim and start, whose submitter may be dead, stalled, or waiting for better times."""
        expired = job.lease_until is None or job.lease_until <= timezone.now()
        mine = job.holder == self.holder
        in_good_hands = job.pk not in self._unsure if mine else not job.holder or processes.is_alive(job.holder)
        if in_good_hands and not expired and not job.cancel_requested_at:
            return
        if custody.waits_for_leave(job) and custody.kept_back(job):
            return
        restarted = bool(job.holder) and not processes.of_this_boot(job.holder)
        custody.take_over(job, holder=self.holder)
        sighting = self.executor.look(order_of(job))
        if sighting.seen in (Seen.ALIVE, Seen.ENDED, Seen.DIED):
            custody.record_running(job, sighting.native_id)
            self._watch(job)
        elif restarted and not job.cancel_requested_at:
            custody.finish_job(job, Ending("fail", RESTARTED))
        else:
            self._begin_again(job, sighting)

    def _begin_again(self, job: Job, sighting: Sighting) -> None:
        """Nobody runs it and nobody ran it: hand it over again, unless it is to be ended or fails each time."""
        if job.cancel_requested_at or job.ending:
            stopping = job.ending or {"event": "cancel", "message": "Cancelled before the script began."}
            self._give_up(job, Ending(stopping["event"], stopping["message"]))
        elif sighting.claims >= MOST_CLAIMS:
            words = f"The job's guard was killed {sighting.claims} times before the script began."
            self._give_up(job, Ending("fail", words))
        elif not custody.kept_back(job):
            self._submit(job)

    # Following

    def _look_after(self, job: Job) -> None:
        if job.state == JobState.SUBMITTING:
            return self._resume_submitting(job)
        if self._stop_if_due(job):
            return
        if job.pk not in self._pidfds:
            self._watch(job)
        elif self.executor.look(order_of(job)).seen == Seen.ENDED:  # a guard that stalled after its last word
            self._resolve(job)

    def _watch(self, job: Job) -> None:
        """Hear of the end of a running job through a pidfd; where its guard has gone already, see what became of it."""
        self._forget(job.pk)
        descriptor = processes.open_pidfd(job.native_id)
        if descriptor is None:
            return self._resolve(job)
        self._pidfds[job.pk] = descriptor
        self.selector.register(descriptor, selectors.EVENT_READ, lambda: self._ended(job.pk))

    def _ended(self, pk: int) -> object:
        """What became of it; the answer says to the loop that a job's end woke it."""
        self._forget(pk)
        job = _FOLLOWED.first(pk)
        if job is not None and job.state == JobState.RUNNING:
            self._guarded(job, self._resolve)
        return ENDED

    def _resolve(self, job: Job) -> None:
        """Its guard is gone, or has said its last word: decide by what lies in the token folder."""
        order = order_of(job)
        sighting = self.executor.look(order)
        if sighting.seen == Seen.ALIVE:
            return self._resolve_alive(job, sighting)
        if sighting.seen in (Seen.ENDED, Seen.DIED):  # nothing of a job outlives it, whatever session it went to
            if left := self.executor.end(order, sighting.native_id):
                return custody.say(job, _still_alive(job, left))
            sighting = self.executor.look(order)
        if sighting.seen == Seen.ENDED or (sighting.seen == Seen.CLOSED and job.ending):
            self._finish(job, sighting)
        elif not processes.of_this_boot(job.native_id) and not job.ending:
            custody.finish_job(job, Ending("fail", RESTARTED))
        elif sighting.seen in (Seen.DIED, Seen.CLOSED):
            self._finish(job, sighting)
        else:
            self._never_began(job, sighting)

    def _resolve_alive(self, job: Job, sighting: Sighting) -> None:
        """The guard we started lost to another, or is not dead after all."""
        if sighting.native_id != job.native_id:
            custody.adopt(job, sighting.native_id)
            if processes.is_alive(job.native_id):
                self._watch(job)

    def _never_began(self, job: Job, sighting: Sighting) -> None:
        order = order_of(job)
        unwanted = job.ending or job.cancel_requested_at
        if sighting.seen == Seen.NOTHING and not unwanted and not self.executor.remembers(order):
            custody.finish_job(job, Ending("fail", f"The job's folder {order.folder} {FOLDER_GONE}"))
            return
        again = sighting.seen == Seen.NOTHING and job.generation > 1
        if again:  # a guard that can't even claim: give what ails it time to pass
            words = "The job's guard ended before it could begin. See the end of its error log."
            custody.take_over(job, holder=self.holder)
            return custody.wait_longer(job, words)
        custody.take_over(job, holder=self.holder)
        self._begin_again(job, sighting)

    def _finish(self, job: Job, sighting: Sighting) -> None:
        self._kill_at.pop(job.pk, None)
        self._forget(job.pk)
        custody.finish_job(job, ending_of(sighting, job.ending))

    # Ending

    def _stop_if_due(self, job: Job) -> bool:
        """End a job that was cancelled or has run too long: ask, wait, kill, verify. Whether it is being ended."""
        if not job.ending and not self._begin_stopping(job):
            return False
        if job.pk not in self._kill_at:
            self._kill_at[job.pk] = processes.now_s() + settings.JOB_GRACE_S
            self.executor.ask_to_end(order_of(job), job.native_id)
            if job.pk not in self._pidfds:
                self._watch(job)
        elif processes.now_s() >= self._kill_at[job.pk] or not processes.is_alive(job.native_id):
            self._end(job)
        return True

    def _begin_stopping(self, job: Job) -> bool:
        if job.cancel_requested_at:
            custody.note_stopping(job, "cancel", custody.why_cancelled(job))
        elif processes.of_this_boot(job.native_id) and processes.age_s(job.native_id) > job.time_limit_s:
            custody.note_stopping(job, "time_out", f"It ran longer than its limit of {job.time_limit_s} s.")
        return bool(job.ending)

    def _end(self, job: Job) -> None:
        if left := self.executor.end(order_of(job), job.native_id):
            custody.say(job, _still_alive(job, left))
        else:
            self._resolve(job)

    def _watch_memory(self, jobs: list[Job]) -> None:
        """End jobs whose processes together hold more memory than they may: their session, and all with their mark."""
        if not jobs:
            return
        members = self._members(jobs)
        for job in jobs:
            used = _memory_mib(members[job.token], job.memory_mib)
            if used > job.memory_mib and processes.is_alive(job.native_id):
                words = f"Its processes together used {used} MiB of memory; its limit is {job.memory_mib} MiB."
                self._stop_at_once(job, "run_out_of_memory", words)

    def _watch_logs(self, jobs: list[Job]) -> None:
        """End jobs that print without end, before the disk is full for all."""
        limit_mib = settings.JOB_LOG_LIMIT_MIB
        for job in jobs:
            if _log_mib(job) > limit_mib and processes.is_alive(job.native_id):
                words = f"Its logs have grown beyond {limit_mib} MiB: a script that prints without end fills the disk."
                self._stop_at_once(job, "fail", words)

    def _stop_at_once(self, job: Job, event: str, words: str) -> None:
        custody.note_stopping(job, event, words)
        self._kill_at[job.pk] = processes.now_s()
        self._guarded(job, self._end)

    def _members(self, jobs: list[Job]) -> dict[str, list[processes.Stat]]:
        """token -> living processes of each of these jobs."""
        tokens = {processes.split_identity(job.native_id)[1]: job.token for job in jobs}
        members: dict[str, list[processes.Stat]] = {job.token: [] for job in jobs}
        stats = list(processes.all_stats())
        for stat in stats:
            token = tokens.get(stat.session) or self._carriers.value_of(stat)
            if token in members:
                members[token].append(stat)
        self._carriers.forget_all_but(stats)
        return members

    def _forget(self, pk: int) -> None:
        descriptor = self._pidfds.pop(pk, None)
        if descriptor is not None:
            self.selector.unregister(descriptor)
            os.close(descriptor)

    def _forget_all_but(self, pks: set[int]) -> None:
        for pk in set(self._pidfds) - pks:
            self._forget(pk)
        for pk in set(self._kill_at) - pks:
            del self._kill_at[pk]
        self._unsure &= pks


def order_of(job: Job, *, with_script: bool = False) -> Order:
    """What the executor is told of a job; the script and its environment only where it is to be started."""
    return Order(
        token=job.token,
        generation=job.generation,
        script=job.script if with_script else "",
        script_name=job.script_name,
        work_dir=job.work_dir,
        job_folder=job.job_folder or job.target.job_folder,
        environment=local_environment(job) if with_script else {},
        environment_lines=job.target.environment_lines,
        stdout_path=job.stdout_path,
        stderr_path=job.stderr_path,
        ownership=job.target.ownership(),
    )


def local_environment(job: Job) -> dict[str, str]:
    """A local job's whole environment: of ours, what its target and it itself may see; its own variables; its mark."""
    ours = allowed_environment([*job.target.environment_allow, *job.environment_names])
    return job_environment(ours, job.environment, cpus=job.cpus, token=job.token)


def _still_alive(job: Job, left: list[str]) -> str:
    pids = ", ".join(str(processes.split_identity(one)[1]) for one in left[:10])
    why = job.ending.get("message", "")
    return f"Not ended yet: {len(left)} of its processes can't be killed (pid {pids}). {why}".strip()


def _log_mib(job: Job) -> int:
    """MiB that a job's logs take on the disk; holes in them take nothing."""
    used = 0
    for path in {job.stdout_path, job.stderr_path}:
        with suppress(OSError):
            used += os.stat(path).st_blocks * 512
    return used // MIB


def _memory_mib(stats: list[processes.Stat], limit_mib: int) -> int:
    """MiB of these processes: by resident sets, and where those are too much, by the fairer proportional sets."""
    resident = sum(stat.rss_bytes for stat in stats) // MIB
    if resident <= limit_mib:
        return resident
    return sum(processes.memory_bytes(stat.pid) for stat in stats) // MIB
