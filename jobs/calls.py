"""Running a command to its end, within a time and with an answer of bounded size."""

import os
import select
import selectors
import subprocess
import time
from contextlib import suppress
from typing import IO, Any

PIECE_BYTES = 64 * 1024
MOST_BYTES = 64 * 1024 * 1024  # 100,000 jobs are 15 MB


class TooMuch(Exception):
    """The command printed more than was allowed; it was killed."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"printed more than {most_bytes // 1024**2} MiB")


def call(
    argv: list[str], *, timeout_s: float, fed: bytes = b"", most_bytes: int = MOST_BYTES, **given: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run `argv`, feed it, and return what it printed; `given` are further arguments of subprocess.Popen.

    Like subprocess.run, but TooMuch where output and complaints together are more than `most_bytes`: a command that
    prints without end would take all memory long before its time is over. TimeoutExpired and OSError as there; the
    command is then killed.
    """
    stdin = subprocess.PIPE if fed else subprocess.DEVNULL
    with subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
        argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given
    ) as process:
        try:
            stdout, stderr = _talk(process, fed, time.monotonic() + timeout_s, timeout_s, most_bytes)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)


def _talk(
    process: subprocess.Popen[bytes], fed: bytes, deadline: float, timeout_s: float, most_bytes: int
) -> tuple[bytes, bytes]:
    """(output, complaints), once both are closed and the command has ended."""
    assert process.stdout and process.stderr  # noqa: S101 - both are pipes
    said: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    left = memoryview(fed)
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ)
        if process.stdin:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            for key, _ in selector.select(_left_s(process, deadline, timeout_s)):
                if key.fileobj is process.stdin:
                    left = _feed(process.stdin, left)
                    if not left:
                        selector.unregister(process.stdin)
                        _close(process.stdin)
                    continue
                piece = os.read(key.fd, PIECE_BYTES)
                said[key.fileobj] += piece  # type: ignore[index]
                if not piece:
                    selector.unregister(key.fileobj)
                if sum(map(len, said.values())) > most_bytes:
                    raise TooMuch(most_bytes)
    process.wait(_left_s(process, deadline, timeout_s))
    return bytes(said[process.stdout]), bytes(said[process.stderr])


def _feed(stdin: IO[bytes], left: memoryview) -> memoryview:
    """Write what a pipe surely takes without waiting; nothing is left where nobody reads."""
    try:
        return left[os.write(stdin.fileno(), left[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return left[:0]


def _close(stdin: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        stdin.close()


def _left_s(process: subprocess.Popen[bytes], deadline: float, timeout_s: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise subprocess.TimeoutExpired(process.args, timeout_s)
    return left_s
