"""SLURM over a shell: submit, look up, poll, read token folders, cancel. Every failed question changes nothing."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.executors.slurm import parse, scripts
from jobs.executors.slurm.errors import Refusal, SchedulerError, refusal_error
from jobs.executors.slurm.guard import batch_text
from jobs.executors.slurm.parse import Row, Status
from jobs.executors.slurm.scripts import TokenFolder
from jobs.executors.slurm.site import Site, SlurmOrder
from jobs.executors.slurm.states import Standing
from jobs.faults import point
from jobs.printed import whole
from jobs.shells import Shell
from record.errors import AdapterError

SUBMIT_TIMEOUT_S = 170  # sbatch itself tries a busy controller for up to 120 s: a shorter time would make ghosts
QUERY_TIMEOUT_S = 25
IDS_A_CALL = 10_000  # one argument may have 128 KiB
FOLDERS_A_CALL = 200
PARTITION = re.compile(r"\S{1,80} [a-z]{2,10}")
NO_SUCH_JOB = "invalid job id specified"
ENDING = (NO_SUCH_JOB, "already completing or completed")  # scancel's words on what the queue still shows as ending


@dataclass(frozen=True)
class HandedOver:
    """What came of a submission: the native id where one is known, else the owner's mark; `before`: it was tried."""

    native_id: str = ""
    owner: str = ""
    before: bool = False


@dataclass
class Answer:
    """One poll. `statuses` is native id -> status; a missing id was not seen.

    `accounts`: whether sacct answered; None where there was nothing to ask it.
    """

    statuses: dict[str, Status] = field(default_factory=dict)
    accounts: bool | None = None


class Slurm:
    """One cluster. AdapterError where it can't be asked, SchedulerError where it refuses."""

    def __init__(self, shell: Shell, site: Site) -> None:
        self.shell = shell
        self.site = site

    def submit(self, order: SlurmOrder) -> HandedOver:
        """Hand an order over, once for each generation. SchedulerError says what a refusal means.

        The environment of sbatch is the order's own and nothing else: all of it travels with the job.
        """
        self._prepare(order)
        point("prepared", order.token)
        environment = order.environment | ({"SLURM_CONF": self.site.conf_path} if self.site.conf_path else {})
        argv = scripts.hand_over_argv(order, self.site)
        done = self.shell.run(argv, env=environment, cwd="/", timeout_s=SUBMIT_TIMEOUT_S)
        word, _, rest = done.stdout.strip().rpartition("\n")[2].partition(" ")
        if word == "id":
            return HandedOver(native_id=rest)
        if word == "owner":
            return HandedOver(owner=rest)
        if word == "before":
            return HandedOver(before=True)
        if word == "refused":
            raise refusal_error(
                "SLURM took no job", done.stderr, done.returncode if (code := whole(rest)) is None else code
            )
        if word == "astray":
            raise _astray(order.work_dir, done.stderr)
        raise AdapterError(
            f"The submission in {order.folder} did not get to its end: {done.stderr.strip()[-300:] or 'no word'}.",
            transient=True,
        )

    def look_up(self, name: str, *, since: datetime) -> list[Status]:
        """Every job of that name that the cluster knows, waiting, running or ended; an empty list: an answer, too.

        Accounts are asked as well where there are any; they may be some seconds late.
        """
        argv = [self.site.command("squeue"), "--noheader", "--states=all", f"--name={name}", *self._cluster(),
                "--format", parse.QUEUE_FORMAT]  # fmt: skip
        rows = parse.parse_queue(self._query(argv))
        rows += self._accounts([f"--name={name}"], since=since) or []
        return [parse.status_of(_newest_source(each)) for each in parse.by_job(rows).values() if each[0].name == name]

    def poll(self, native_ids: Sequence[str], *, since: datetime, tasks: dict[str, int] | None = None) -> Answer:
        """The status of all these jobs: one squeue for each cluster, and sacct for those that have left the queue.

        `since` is when the oldest of them was submitted; `tasks` is native id -> size of its array. What the queue says
        of an ended job may be later than what the accounts say, so the accounts are asked only where it says nothing.
        """
        answer = Answer()
        tasks = tasks or {}
        for cluster, ids in _by_cluster(native_ids).items():
            rows = parse.by_job(self._queue(list(ids), cluster))
            left = [job_id for job_id in ids if not _is_whole(rows.get(job_id, []), tasks.get(ids[job_id]))]
            if left:
                accounts = self._accounts_of(left, since=since, cluster=cluster)
                answer.accounts = accounts is not None
                for job_id, found in parse.by_job(accounts or []).items():
                    if job_id in left:
                        rows[job_id] = _merged(rows.get(job_id, []), found)
            for job_id, found in rows.items():
                if job_id in ids:
                    answer.statuses[ids[job_id]] = parse.status_of(found, tasks=tasks.get(ids[job_id]))
        return answer

    def show(self, native_id: str) -> Status | None:
        """All that the controller knows of one job, with its exit code and signal; None where it knows nothing.

        For ends that are odd only: it costs a call a job.
        """
        job_id, cluster = parse.split_native_id(native_id)
        argv = [self.site.command("scontrol"), "--oneliner", *self._cluster(cluster), "show", "job", job_id]
        done = self.shell.run(argv, env=self.site.environment(), cwd="/", timeout_s=QUERY_TIMEOUT_S)
        if done.returncode and NO_SUCH_JOB in done.stderr.lower():
            return None
        if done.returncode:
            raise refusal_error("scontrol", done.stderr, done.returncode)
        rows = [row for row in parse.parse_show_job(done.stdout) if row.job_id == job_id]
        return parse.status_of(rows) if rows else None

    def read_folders(self, folders: Sequence[str]) -> tuple[datetime, dict[str, TokenFolder]]:
        """(the target's clock, folder -> what lies in it); a call for 200 of them."""
        now, found = datetime.now(UTC), dict[str, TokenFolder]()
        for start in range(0, len(folders), FOLDERS_A_CALL):
            argv = scripts.look_argv(folders[start : start + FOLDERS_A_CALL])
            done = self.shell.run(argv, env=self.site.environment(), cwd="/", timeout_s=QUERY_TIMEOUT_S)
            if done.returncode:
                raise AdapterError(f"Token folders can't be read: {done.stderr.strip()[-300:]}", transient=True)
            now, some = scripts.parse_look(done.stdout)
            found |= some
        return now, found

    def close(self, folder: str) -> str:
        """See to it that nobody begins the job of that folder; who owns it now (`closed`, or who was quicker)."""
        done = self.shell.run(
            scripts.close_argv(folder), env=self.site.environment(), cwd="/", timeout_s=QUERY_TIMEOUT_S
        )
        word, _, owner = done.stdout.strip().partition(" ")
        if word != "owner":
            raise AdapterError(f"{folder} can't be closed: {done.stderr.strip()[-300:]}", transient=True)
        return owner

    def forget(self, folder: str, native_id: str) -> None:
        """Put an id aside that the cluster has forgotten, so that a job that never began can be handed over anew."""
        argv = scripts.forget_argv(folder, native_id)
        done = self.shell.run(argv, env=self.site.environment(), cwd="/", timeout_s=QUERY_TIMEOUT_S)
        if done.returncode:
            raise AdapterError(f"{folder} can't be made ready anew: {done.stderr.strip()[-300:]}", transient=True)

    def native_id_of(self, job_id: str) -> str:
        """A job id with the cluster's name, as sbatch prints it where it is told one."""
        return f"{job_id};{self.site.cluster}" if self.site.cluster and ";" not in job_id else job_id

    def cancel(self, native_id: str, name: str) -> bool:
        """Ask for the end of a job, by id and name, since ids come round again; whether it is seen to have ended.

        scancel says nothing of jobs that it does not know: what the queue says afterwards is what counts. False: it is
        still there (it is ending, or scancel had no effect); ask again. What scancel complains of while the queue
        answers is about this job alone: then the SchedulerError is permanent, but for the words of a busy cluster.
        """
        job_id, cluster = parse.split_native_id(native_id)
        argv = [self.site.command("scancel"), f"--jobname={name}", *self._cluster(cluster), job_id]
        done = self.shell.run(argv, env=self.site.environment(), cwd="/", timeout_s=QUERY_TIMEOUT_S)
        rows = [row for row in self._queue([job_id], cluster) if row.job_id == job_id and row.name == name]
        ended = all(row.meaning.standing == Standing.ENDED for row in rows)
        if done.returncode and not ended and not any(words in done.stderr.lower() for words in ENDING):
            error = refusal_error("scancel", done.stderr, done.returncode)
            raise error if error.refusal == Refusal.BUSY else SchedulerError(error.message, Refusal.PERMANENT)
        return ended

    def partitions(self) -> list[str]:
        """Names of the partitions and whether they are up, as `name up`; a site's notices are passed over."""
        argv = [self.site.command("sinfo"), "--noheader", *self._cluster(), "--format", "%R %a"]
        return [line for line in dict.fromkeys(self._query(argv).split("\n")) if PARTITION.fullmatch(line)]

    def has_accounts(self) -> bool:
        """Whether sacct answers."""
        return self._accounts(["--jobs=1"], since=datetime.now(UTC)) is not None

    def _prepare(self, order: SlurmOrder) -> None:
        for folder in scripts.log_folders(order):
            self.shell.make_folder(folder)
        script_path = f"{order.folder}/script/{order.script_name}"
        self.shell.write(script_path, order.script.encode())
        self.shell.write(scripts.batch_path(order), batch_text(order).encode())

    def _queue(self, ids: list[str], cluster: str) -> list[Row]:
        rows: list[Row] = []
        for start in range(0, len(ids), IDS_A_CALL):
            argv = [
                self.site.command("squeue"), "--noheader", "--states=all", *self._cluster(cluster),
                f"--jobs={','.join(ids[start : start + IDS_A_CALL])}", "--format", parse.QUEUE_FORMAT,
            ]  # fmt: skip
            rows += parse.parse_queue(self._query(argv, unknown_is_empty=True))
        return rows

    def _accounts_of(self, ids: list[str], *, since: datetime, cluster: str) -> list[Row] | None:
        rows: list[Row] = []
        for start in range(0, len(ids), IDS_A_CALL):
            some = self._accounts([f"--jobs={','.join(ids[start : start + IDS_A_CALL])}"], since=since, cluster=cluster)
            if some is None:
                return None
            rows += some
        return rows

    def _accounts(self, which: Iterable[str], *, since: datetime, cluster: str = "") -> list[Row] | None:
        """Rows of the accounts; None where there are none, or where they can't be asked: nothing follows from that."""
        argv = [
            self.site.command("sacct"), "--noheader", "--parsable2", "--allocations", "--duplicates", *which,
            f"--starttime={since.astimezone(UTC):%Y-%m-%dT%H:%M:%S}", *self._cluster(cluster),
            "--format", parse.ACCOUNTING_FORMAT,
        ]  # fmt: skip
        try:
            return parse.parse_accounting(self._query(argv))
        except AdapterError:  # sacct is missing or hangs, too: if it is the connection, the next call tells
            return None

    def _query(self, argv: list[str], *, unknown_is_empty: bool = False) -> str:
        """What a command prints. Exit 0 with a complaint and no answer is a failure, too."""
        done = self.shell.run(argv, env=self.site.environment(), cwd="/", timeout_s=QUERY_TIMEOUT_S)
        program = argv[0].rpartition("/")[2]
        if unknown_is_empty and done.returncode and NO_SUCH_JOB in done.stderr.lower():
            return ""
        if done.returncode or ("error" in done.stderr.lower() and not done.stdout.strip()):
            raise refusal_error(program, done.stderr, done.returncode)
        return done.stdout

    def _cluster(self, name: str = "") -> list[str]:
        name = name or self.site.cluster
        return [f"--clusters={name}"] if name else []


def _astray(work_dir: str, stderr: str) -> AdapterError:
    gone = re.search("no such file|not a directory|permission denied", stderr, re.IGNORECASE)
    said = (stderr.strip().splitlines() or ["no word"])[-1].rpartition(": ")[2]
    return AdapterError(f"The work folder {work_dir} can't be entered: {said}.", transient=not gone)


def _by_cluster(native_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """cluster -> job id -> native id."""
    found: dict[str, dict[str, str]] = {}
    for native_id in native_ids:
        job_id, cluster = parse.split_native_id(native_id)
        if job_id:
            found.setdefault(cluster, {})[job_id] = native_id
    return found


def _is_whole(rows: list[Row], tasks: int | None) -> bool:
    """Whether the queue alone says all that there is to say of a job."""
    if not rows:
        return False
    live = any(row.meaning.standing != Standing.ENDED for row in rows)
    return live or tasks is None or len(rows) >= tasks


def _merged(queue: list[Row], accounts: list[Row]) -> list[Row]:
    """What the queue says of a task goes before what the accounts say; of several accounts the newest counts."""
    newest: dict[str, Row] = {}
    for row in accounts:
        before = newest.get(row.task)
        if before is None or (row.submitted_at and before.submitted_at and row.submitted_at >= before.submitted_at):
            newest[row.task] = row
    return [*queue, *(row for task, row in newest.items() if task not in {each.task for each in queue})]


def _newest_source(rows: list[Row]) -> list[Row]:
    return _merged([row for row in rows if row.exit_code is None], [row for row in rows if row.exit_code is not None])
