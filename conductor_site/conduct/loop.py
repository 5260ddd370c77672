"""The loop of `conduct`: woken by the ends of jobs, by datagrams, by word from other hosts, and once a second."""

import fcntl
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connection

from conductor_site.conduct.due import DueTable
from conductor_site.conduct.lease import TickLease
from conductor_site.conduct.listening import Ear
from conductor_site.conduct.quiet import Quiet
from jobs.claiming import take_here
from jobs.hands import ENDED, Hands
from jobs.hosts import this_host
from jobs.wake import hear_here
from record.errors import BadInput

log = logging.getLogger(__name__)

TICK_S = 1.0


class Cluster(Protocol):
    """The task cluster that runs beside the loop."""

    def start(self) -> None: ...
    def watch(self) -> None: ...
    def stop(self) -> None: ...


class Conduct:
    """One process of it. `cluster` may be None: then tasks are worked off elsewhere, or not at all."""

    def __init__(self, *, cluster: Cluster | None) -> None:
        self.selector = selectors.DefaultSelector()
        self.hands = Hands(host=this_host(), selector=self.selector)
        self.due = DueTable()
        self.lease = TickLease(self.hands.holder)
        self.quiet = Quiet()
        self.ear = Ear(self.selector)
        self.cluster = cluster
        self._stopping = False
        self._next_tick_s = 0.0
        self._called = False  # by what this process itself did, and not looked at since
        self._hush = lambda: False

    def run(self) -> None:
        """Runs until SIGTERM or SIGINT. Jobs go on without it; the cluster is stopped."""
        with only_one(settings.DATA_DIR), self._wake_socket(), self._own_calls(), self._signals():
            if self.cluster:
                self.cluster.start()
            log.info("conduct runs on %s as %s", this_host(), self.hands.holder)
            while not self._stopping:
                self._turn()
            self._leave()

    def _turn(self) -> None:
        """Wait for something to happen, and see to it. The database being away costs a tick, no more."""
        try:
            wait_s = 0.0 if self._called else max(0.0, self._next_tick_s - time.monotonic())
            answers = [key.data() for key, _ in self.selector.select(wait_s)]
            heard = [answer for answer in answers if answer is not False]
            late = self._hush()  # who called since is heard now, too
            ends_only = bool(heard) and all(answer is ENDED for answer in heard) and not late
            if self._stopping:
                return
            if tick := time.monotonic() >= self._next_tick_s:
                self._next_tick_s = time.monotonic() + TICK_S
            if heard or late or tick or self._called:
                self._round(tick=tick, ends_only=ends_only)
        except DatabaseError as error:
            log.error("the database does not answer (%s); trying again at the next tick", error)
            connection.close()
            self._called = False  # the next tick looks at everything
            self.quiet.disturb()
            self._next_tick_s = time.monotonic() + TICK_S
            time.sleep(0.1)  # what woke us may do so again at once

    def _round(self, *, tick: bool, ends_only: bool) -> None:
        if tick:
            close_old_connections()
        held = self.lease.hold()
        if not tick or not self.quiet.lasts():
            self._look(tick=tick, held=held, ends_only=ends_only)
        if tick:
            self.ear.keep_open()
        if tick and self.cluster:
            self.cluster.watch()

    def _look(self, *, tick: bool, held: bool, ends_only: bool = False) -> None:
        """Look at everything that may be due; what follows jobs only at ticks, since pidfds tell of their ends."""
        if tick:
            self.hands.know_targets()
        away = self.hands.follow() if tick else 0  # first: what it finds ended leaves slots
        started = self.hands.start_due()
        done = self._do_due(tick=tick, held=held, ends_only=ends_only)
        self._called = False  # whatever was done up to here has been looked at since, or is started now
        if done:
            started += self.hands.start_due()
        if tick:
            self.quiet.looked(restless=bool(away or done or started))
        else:
            self.quiet.disturb()

    def _do_due(self, *, tick: bool, held: bool, ends_only: bool) -> int:
        if tick:
            return self.due.run(for_all=held)
        return self.due.run_after_ends(for_all=held) if ends_only else self.due.run_at_once(for_all=held)

    def _call(self) -> None:
        self._called = True

    def _leave(self) -> None:
        log.info("conduct stops; jobs that run go on")
        self.hands.close()
        self.ear.close()
        if self.cluster:
            self.cluster.stop()
        with suppress(DatabaseError):
            self.lease.release()

    @contextmanager
    def _wake_socket(self) -> Iterator[None]:
        path = str(settings.CONDUCT_SOCKET)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            with suppress(FileNotFoundError):
                os.unlink(path)  # a predecessor's: the lock says that it is gone
            try:
                receiver.bind(path)
                os.chmod(path, 0o600)
            except OSError as error:  # too long a path, most likely
                log.warning("no wake-ups, only ticks: the socket %s can't be made (%s)", path, error)
            receiver.setblocking(False)
            self._hush = lambda: _drain(receiver)
            self.selector.register(receiver, selectors.EVENT_READ, self._hush)
            try:
                yield
            finally:
                self._hush = lambda: False
                with suppress(OSError):
                    os.unlink(path)

    @contextmanager
    def _own_calls(self) -> Iterator[None]:
        """What this process itself makes due is looked at in the same or the next turn, without the socket."""
        hear_here(self._call)
        take_here(self.hands)
        try:
            yield
        finally:
            take_here(None)
            hear_here(None)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT set a flag, and wake the selector through a pair of sockets."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self.selector.register(reader, selectors.EVENT_READ, lambda: _drain(reader))
        before_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before_fd)
            reader.close()
            writer.close()

    def _stop(self, *_: object) -> None:
        self._stopping = True


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Refuse a second `conduct` on the same data folder: both would own one socket and one cluster.

    Two with different data folders may share a database: claims are by compare-and-set. The lock goes with the process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "conduct.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            pid = lock.read().strip() or "unknown"
            raise BadInput(
                f"Another conduct (pid {pid}) runs on {folder}: stop it first, or set CONDUCTOR_DATA."
            ) from None
        _sign(lock)
        yield


def _sign(lock: IO[str]) -> None:
    """Leave our pid in the lock file, for whoever is refused; on a full disk it is done without."""
    try:
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"{os.getpid()}\n".encode())
    except OSError as error:
        log.warning("the pid can't be written to %s: %s", lock.name, error.strerror)


def _drain(receiver: socket.socket) -> bool:
    """Take what has come; whether anything had."""
    came = False
    with suppress(BlockingIOError):
        while True:
            receiver.recv(64)
            came = True
    return came
