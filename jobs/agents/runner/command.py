"""Asks a program: the prompt on its standard input, its answer on its standard output."""

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Any

from jobs.agents.runner.isolation import BUBBLEWRAP, OTHER_USER, Cage, NoIsolation, find_cage
from jobs.agents.runner.report import ANSWERED, MARGIN_BYTES, MAX_RAW_BYTES, READ_BYTES, Answer, redacted_head

MAX_ERRORS_BYTES = 64 * 1024
PASSED_ON = ("PATH", "LANG", "TZ", "CONDUCTOR_TOKEN")  # the token is how Conductor finds what is left of a job
DRAIN_S = 5.0


def ask(order: dict[str, Any], folder: str) -> Answer:
    """Run the program and wait for it, within its time; whatever becomes of it ends in one answer."""
    settings = order["configuration"]
    try:
        cage = find_cage(
            order["isolation"],
            user=order.get("user", ""),
            readable=settings.get("readable", []),
            network=settings.get("network", True),
        )
    except NoIsolation as error:
        return Answer("infra", str(error))
    desk = _desk(cage, folder, order["attachments"])
    try:
        return _run(order, settings, cage, desk)
    finally:
        shutil.rmtree(desk, ignore_errors=True)


def _desk(cage: Cage, folder: str, attachments: list[dict[str, str]]) -> str:
    """The program's own folder, with the pictures in it. Another user can't come into Conductor's folders."""
    if cage.kind == OTHER_USER:
        desk = tempfile.mkdtemp(prefix="conductor-agent-")
    else:
        desk = f"{folder}/desk"
        os.makedirs(desk, mode=0o700, exist_ok=True)
    for each in attachments:
        shutil.copyfile(each["path"], f"{desk}/{each['name']}")
    cage.give(desk)
    return desk


def _run(order: dict[str, Any], settings: dict[str, Any], cage: Cage, desk: str) -> Answer:
    argv = settings["command"]
    environment = {
        name: os.environ[name] for name in (*PASSED_ON, *settings.get("environment", [])) if name in os.environ
    }
    environment |= order["from_files"]
    environment |= {"HOME": settings.get("home") or desk, "TMPDIR": desk if cage.kind != BUBBLEWRAP else "/tmp"}  # noqa: S108
    try:
        child = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            cage.command(argv, desk), cwd=desk, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, process_group=0, **cage.options(),
        )  # fmt: skip
    except OSError as error:
        return Answer("infra", f"{argv[0]} can't be started: {error.strerror}.", isolation=cage.kind)
    signal.signal(signal.SIGTERM, lambda *_: _stop(child))
    feed = threading.Thread(target=_feed, args=(child.stdin, order["prompt"].encode()), daemon=True)
    out = _Reader(child.stdout, READ_BYTES, on_full=lambda: _stop(child))
    errors = _Reader(child.stderr, MAX_ERRORS_BYTES + MARGIN_BYTES, on_full=lambda: None)
    for thread in (feed, out, errors):
        thread.start()
    late = False
    try:
        child.wait(order["time_limit_s"])
    except subprocess.TimeoutExpired:
        late = True
    _stop(child)  # also what it left running behind it
    child.wait()
    end_s = time.monotonic() + DRAIN_S
    for reader in (out, errors):
        reader.join(max(0.0, end_s - time.monotonic()))
    return _answer(order, settings, cage, child.returncode, late, out, errors)


def _answer(
    order: dict[str, Any],
    settings: dict[str, Any],
    cage: Cage,
    code: int,
    late: bool,
    out: "_Reader",
    errors: "_Reader",
) -> Answer:
    said = redacted_head(errors.data(), order["secrets"], MAX_ERRORS_BYTES).decode("utf-8", "replace")
    raw = out.data()
    answer = Answer(ANSWERED, raw=raw, cut=out.full, isolation=cage.kind, exit_code=code)
    if late:
        answer.outcome, answer.message = (
            "timed_out",
            f"It gave no answer within {order['time_limit_s']} s, and was ended.",
        )
    elif len(raw) > MAX_RAW_BYTES:
        limit = MAX_RAW_BYTES // 1024 // 1024
        answer.outcome, answer.message = "failed", f"It wrote more than {limit} MiB, and was ended; the first are kept."
    elif cage.kind == BUBBLEWRAP and code and said.startswith("bwrap: "):
        answer.outcome, answer.message = "infra", f"It can't be started in isolation: {said.splitlines()[0][7:400]}."
    elif code:
        answer.outcome = _class_of(settings, code, said)
        answer.message = f"{order['configuration']['command'][0]} ended with exit code {code}. {_end_of(said)}".strip()
    return answer


def _class_of(settings: dict[str, Any], code: int, said: str) -> str:
    """The outcome that the agent's configuration gives this exit code or these words; else failed."""
    by_code = settings.get("exit_codes", {}).get(str(code))
    if by_code:
        return str(by_code)
    low = said.lower()
    for outcome, signs in settings.get("stderr_says", {}).items():
        if any(sign.lower() in low for sign in signs):
            return str(outcome)
    return "failed"


def _end_of(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return f"It said: {' / '.join(lines[-3:])[-600:]}" if lines else ""


def _feed(stdin: IO[bytes] | None, prompt: bytes) -> None:
    if stdin is None:
        return
    try:
        stdin.write(prompt)
        stdin.close()
    except OSError:  # it did not want to read to the end
        return


def _stop(child: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class _Reader(threading.Thread):
    """Reads a pipe to its end, or until it has `limit` bytes and a little more came."""

    def __init__(self, pipe: IO[bytes] | None, limit: int, on_full: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._pipe, self._limit, self._on_full = pipe, limit, on_full
        self._chunks: list[bytes] = []
        self._size = 0
        self.full = False

    def run(self) -> None:
        while self._pipe is not None and (chunk := self._pipe.read1(65536)):  # type: ignore[attr-defined]
            if self._size < self._limit:
                self._chunks.append(chunk[: self._limit - self._size])
            self._size += len(chunk)
            if self._size > self._limit and not self.full:
                self.full = True
                self._on_full()

    def data(self) -> bytes:
        return b"".join(list(self._chunks))
