"""Daemons that tests start, kill, stall and start again; each in the foreground, as a child that ends with us."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STOP_S = 10.0


class Daemon:
    """One daemon. `argv` must keep it in the foreground; what it says goes to `log`."""

    def __init__(self, argv: list[str], *, log: Path, env: dict[str, str] | None = None) -> None:
        self.argv = argv
        self.log = log
        self.env = env or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.argv[0]} has not been started"
        return self._process.pid

    def start(self) -> None:
        """Start it, unless it runs. It gets a SIGTERM from the kernel when the thread that started it has gone."""
        if self._process is not None and self._process.poll() is None:
            return
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *self.argv],
                env=os.environ | self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9, as an accident would."""
        self._send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_S)

    def stall(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self._send(signal.SIGCONT)
        self._send(signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM, and a kill where that does not help."""
        self.ask_to_stop()
        if self._process is None:
            return
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _send(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)


def until(holds: Callable[[], object], *, within_s: float, what: str) -> None:
    """Wait for something to hold; AssertionError with `what` where it does not."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)


def answers(argv: list[str], *, env: dict[str, str], timeout_s: float = 5) -> str | None:
    """What a command prints; None where it fails or takes too long."""
    try:
        done = subprocess.run(
            argv, env=os.environ | env, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL
        )
    except (subprocess.TimeoutExpired, FileNotFoundError):
        return None
    return done.stdout if done.returncode == 0 else None
