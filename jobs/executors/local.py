"""Jobs on this machine: detached process groups under a guard, known by boot id, pid and start time."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from errno import ENOSPC
from pathlib import Path

from jobs import processes
from jobs.environment import after_lines
from jobs.executors import Order, Seen, Sighting
from jobs.executors.guard import guard_text
from jobs.faults import point
from jobs.ordinary import open_ordinary
from jobs.parse import shebang
from jobs.printed import moment
from jobs.shells import explain, in_words, write_whole
from record.errors import AdapterError

SHELL = "/bin/sh"
TEXT_BYTES = 4096  # more than any of the files in a token folder has
LARGEST_CODE = 255
CLOSED_MARK = "closed"  # an owner of this name runs nothing and never will
# Only where nobody has claimed, or where the last claimer is gone for good without having begun, may another claim.
CLAIMS = {Seen.NOTHING: "owner", Seen.NEVER_BEGAN: "heir.{}"}


class LocalExecutor:
    """See jobs.executors.Executor. The native id is the identity of the guard."""

    def submit(self, order: Order) -> str:
        """Write the script and its guard into the token folder and start the guard, detached, in a session of its own.

        Where somebody runs it already, or ran it, that one's identity is the answer and nothing is started.
        """
        before = self.look(order)
        if before.seen not in CLAIMS:
            return before.native_id
        claim = _claim_after(before)
        interpreter = self._interpreter(order)
        with in_words(order.folder):
            order.ownership.make_folder(f"{order.folder}/script")
            point("folder_made", order.token)
            script_path = f"{order.folder}/script/{order.script_name}"
            if not os.path.exists(script_path):
                write_whole(script_path, order.script.encode(), sync=False, mode=0o755, settle=order.ownership.settle)
            guard_path = f"{order.folder}/guard.{order.generation}.sh"
            command = after_lines(order.environment_lines, [*interpreter, script_path])
            text = guard_text(folder=order.folder, claim=claim, command=command)
            write_whole(guard_path, text.encode(), sync=False, settle=order.ownership.settle)
            try:
                os.mkdir(f"{order.folder}/submit.{order.generation}")
                order.ownership.settle(f"{order.folder}/submit.{order.generation}")
            except FileExistsError:
                raise AdapterError(
                    f"Generation {order.generation} of this job has been handed over before.", transient=True
                ) from None
            point("submit_made", order.token)
        return self._spawn(order, guard_path, claim)

    def look(self, order: Order) -> Sighting:
        """Reads the chain of claims: the last claimer is who runs it, if anybody does."""
        claimers = list(_claimers(order.folder))
        if not claimers:
            return Sighting(Seen.NOTHING)
        return replace(self._look_at(order, claimers[-1]), claims=len(claimers))

    def remembers(self, order: Order) -> bool:
        """By the folder that was made for the generation before its guard was started."""
        return os.path.isdir(f"{order.folder}/submit.{order.generation}")

    def ask_to_end(self, order: Order, native_id: str) -> None:
        """SIGTERM to the guard, who passes it on to the group; without a guard to each process that is left."""
        if not processes.send(native_id, signal.SIGTERM):
            for member in processes.family(native_id, order.mark):
                processes.send(member, signal.SIGTERM)

    def end(self, order: Order, native_id: str) -> list[str]:
        """SIGKILL to the session and to all that carry the token, until none is left."""
        return processes.end_family(native_id, order.mark)

    def close(self, order: Order) -> Sighting:
        """Take the next claim ourselves, so that a guard that comes late finds it taken."""
        while (before := self.look(order)).seen in CLAIMS:
            with in_words(order.folder):
                order.ownership.make_folder(order.folder)
                mark = f"{order.folder}/owner.{CLOSED_MARK}"
                Path(mark).write_text(f"{CLOSED_MARK}\n")
                with suppress(FileExistsError):  # somebody was quicker: look again
                    os.link(mark, f"{order.folder}/{_claim_after(before)}")
        return before

    def _interpreter(self, order: Order) -> list[str]:
        """What runs the script; AdapterError where that or the job's work folder is not here."""
        if not os.path.isdir(order.work_dir):
            raise AdapterError(f"The work folder {order.work_dir} is not there.", transient=False)
        interpreter = shebang(order.script)
        if not (os.access(interpreter[0], os.X_OK) and os.path.isfile(interpreter[0])):
            raise AdapterError(
                f"The script {order.script_name} wants the interpreter {interpreter[0]}, which is not on this machine.",
                transient=False,
            )
        return interpreter

    def _spawn(self, order: Order, guard_path: str, claim: str) -> str:
        with in_words(order.stdout_path):
            for folder in {os.path.dirname(path) for path in (order.stdout_path, order.stderr_path)}:
                order.ownership.make_folder(folder)
            with open(order.stdout_path, "ab") as stdout, open(order.stderr_path, "ab") as stderr:
                for path in (order.stdout_path, order.stderr_path):
                    order.ownership.settle(path)
                point("before_spawn", order.token)
                forks_before = processes.forks()
                guard = _start(order, [SHELL, guard_path], stdout.fileno(), stderr.fileno())
        point("spawned", order.token)
        native_id = processes.identity(guard.pid)
        self._claim_for(order, native_id, claim)
        point("given", order.token)
        processes.remember_birth(native_id, forks_before)
        return native_id

    def _claim_for(self, order: Order, native_id: str, claim: str) -> None:
        """Take the claim in the name of the guard that was just started, which spares it a program (`ln`).

        It is the link that the guard itself would make, and the first one wins: where ours comes late or fails, the
        guard's counts. What is linked is whole, and no file that the guard writes.
        """
        mark = f"{order.folder}/owner.{native_id}.given"
        with suppress(OSError):
            _write(mark, f"{native_id}\n")
            order.ownership.settle(mark)
            os.link(mark, f"{order.folder}/{claim}")

    def _look_at(self, order: Order, claimer: str) -> Sighting:
        if claimer == CLOSED_MARK:
            return Sighting(Seen.CLOSED)
        # The order matters: what is alive may write its exit file at any moment, what is gone writes none.
        began = os.path.exists(f"{order.folder}/started.{claimer}")
        if (ended := _exit_file(order.folder, claimer)) is not None:
            return Sighting(Seen.ENDED, claimer, *ended)
        if processes.is_alive(claimer):
            return Sighting(Seen.ALIVE, claimer)
        if (ended := _exit_file(order.folder, claimer)) is not None:
            return Sighting(Seen.ENDED, claimer, *ended)
        if left := processes.family(claimer, order.mark):
            return Sighting(Seen.DIED, claimer, processes=left)
        began = began or os.path.exists(f"{order.folder}/started.{claimer}")
        return Sighting(Seen.DIED if began else Seen.NEVER_BEGAN, claimer)


def _write(path: str, text: str) -> None:
    """As Path.write_text for a new file, in a third of its time: a guard that has begun is quick. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        if os.write(descriptor, text.encode()) != len(text):
            raise OSError(ENOSPC, "it was not written whole")
    finally:
        os.close(descriptor)


_children: list[subprocess.Popen[bytes]] = []


def reap_children() -> None:
    """Take the exit statuses of guards that this process started, so that none stays a zombie."""
    _children[:] = [child for child in _children if child.poll() is None]


def _start(order: Order, argv: list[str], stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    try:
        guard = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            argv,
            cwd=order.work_dir,
            env=order.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            umask=order.ownership.umask_number,
            start_new_session=True,
        )
    except OSError as error:
        raise explain(error, order.work_dir) from error
    except ValueError as error:  # a NUL in the environment
        raise AdapterError(f"The job can't be started: {error}.", transient=False) from error
    _children.append(guard)
    return guard


def _claimers(folder: str) -> Iterator[str]:
    """Who claimed, first to last: the owner, then each heir of one who died before the script began."""
    claim = "owner"
    while (claimer := _first_line(f"{folder}/{claim}")) is not None:
        yield claimer
        claim = f"heir.{claimer}"


def _claim_after(before: Sighting) -> str:
    """The claim that is free after that sighting. If somebody takes it in between, the link fails, as it must."""
    return CLAIMS[before.seen].format(before.native_id)


def _first_line(path: str) -> str | None:
    text = _text(path)
    return None if text is None else text.strip()


def _text(path: str) -> str | None:
    try:
        with open_ordinary(path) as handle:
            return handle.read(TEXT_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise explain(error, path) from error


def _exit_file(folder: str, claimer: str) -> tuple[int, datetime] | None:
    """(exit code, when) from the exit file of that guard; None while there is none."""
    path = f"{folder}/exit.{claimer}"
    text = _text(path)
    if not text or not text.endswith("\n"):  # the guard is writing it, or was cut off while it did
        return None
    code, _, ended = text.partition(" ")
    try:
        return (int(code), _moment(ended, path, claimer)) if 0 <= int(code) <= LARGEST_CODE else None
    except (ValueError, OverflowError, OSError):
        return None  # what a power cut left of it


def _moment(text: str, path: str, claimer: str) -> datetime:
    """When that guard wrote it: `up SECONDS`, by the clock that nobody sets; guards once wrote seconds since the epoch.

    After a restart of the machine that clock says nothing any more, and the file's own time has to do.
    """
    if not text.startswith("up "):
        return moment(float(text))
    ago_s = processes.ago_s(float(text.removeprefix("up ")))
    if processes.of_this_boot(claimer):
        return datetime.now(UTC) - timedelta(seconds=ago_s)
    return moment(os.stat(path).st_mtime)
