"""Starts the web server and `conduct`, starts either anew when it ends, and stops both (on Linux)."""

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from django.conf import settings

from conductor_site.env import env_int

STOP_GRACE_S = 40  # longer than `conduct` gives its task cluster, which it would leave behind else
RESTART_PAUSE_S = 1.0
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def open_door(default: int) -> socket.socket:
    """A socket that listens on loopback: at the first free port of fifty from CONDUCTOR_PORT, else from `default`, on.

    It is held from here on, so that no other site takes the port while this one is being prepared or starts anew.
    """
    wanted = env_int("CONDUCTOR_PORT", default, minimum=1024, maximum=65_535 - 50)
    for port in range(wanted, wanted + 50):
        door = socket.socket()
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", port))
            door.listen()
        except OSError:
            door.close()
            continue
        return door
    raise SystemExit(f"No free port between {wanted} and {wanted + 49} on 127.0.0.1. Set CONDUCTOR_PORT to another.")


def _end_with_parent() -> None:
    """In the child, before exec: the kernel sends SIGTERM when the supervisor dies, so that nothing is left behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Child:
    """One process that is kept running."""

    name: str
    argv: list[str]
    log_path: Path
    door: socket.socket | None = None  # which it inherits
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    ended_at: float | None = None

    def start(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            # A session of its own: Ctrl-C in the terminal reaches the supervisor alone, which stops them in order.
            self.process = subprocess.Popen(  # noqa: S603 - argv is ours
                self.argv,
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
                pass_fds=[self.door.fileno()] if self.door else [],
            )

    def keep_running(self) -> None:
        """Start the process anew a second after it ended."""
        if self.process is None or self.process.poll() is None:
            return
        if self.ended_at is None:
            self.ended_at = time.monotonic()
        elif time.monotonic() - self.ended_at > RESTART_PAUSE_S:
            self.restarts += 1
            self.ended_at = None
            self.start()

    def stop(self) -> None:
        """Ask it to end; after the grace, end it."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def web_server(door: socket.socket, log_path: Path) -> Child:
    """gunicorn at a socket that listens, not started yet."""
    return Child("web", web_argv(f"fd://{door.fileno()}"), log_path, door)


def web_argv(bind: str) -> list[str]:
    """gunicorn: one process, eight threads."""
    server = [sys.executable, "-m", "gunicorn", "conductor_site.wsgi", "--bind", bind]
    return [*server, "--workers", "1", "--threads", "8", "--graceful-timeout", "5", "--no-control-socket"]


@dataclass
class Site:
    """Web server and `conduct` on loopback. A lock on a file keeps a second supervisor out; it holds the address."""

    door: socket.socket
    folder: Path
    children: list[Child] = field(default_factory=list)
    lock: IO[str] | None = None

    @property
    def address(self) -> str:
        return "http://{}:{}".format(*self.door.getsockname())

    def claim(self) -> None:
        """Take the folder, before anything is written to it; SystemExit, with the address, where a site has it."""
        self.lock = take_lock(self.folder)
        self.lock.truncate(0)
        self.lock.write(self.address)
        self.lock.flush()

    def start(self) -> None:
        """Start both, on a folder that has been claimed."""
        logs = self.folder / "logs"
        self.children = [
            web_server(self.door, logs / "web.log"),
            Child("conduct", [sys.executable, "manage.py", "conduct"], logs / "conduct.log"),
        ]
        for child in self.children:
            child.start()

    def keep_running(self) -> None:
        for child in self.children:
            child.keep_running()

    def stop(self) -> None:
        for child in self.children:
            child.stop()
        self.door.close()
        if self.lock:
            self.lock.close()


def take_lock(folder: Path) -> IO[str]:
    """The lock of the one supervisor of `folder`; SystemExit where another holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "site.lock"
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"The demo runs already: {path.read_text()}. Stop it there with Ctrl-C first.") from None
    return lock
