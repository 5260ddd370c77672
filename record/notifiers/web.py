"""HTTP for notifiers: bounded in time and size, no redirects, no proxies from the environment.

A time limit of a socket is for each piece that comes, so a server that sends its TLS handshake or its headers byte by
byte would hold its sender for as long as it likes: a watch ends the whole connection instead.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    SSLError,
    TimeoutError,
)

from record.notifiers import TIMEOUT_S, SendFailure

ANSWER_BYTES = 256 * 1024
LONGEST_S = 30.0  # for a request and its answer


@dataclass(frozen=True)
class Answer:
    """What came back. `text` is the beginning of the body, as far as it was read; `is_cut`: there was more of it."""

    status: int
    text: str
    headers: dict[str, str]
    is_cut: bool = False

    def json(self) -> dict[str, Any]:
        """The body as an object; empty where it is none."""
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def retry_after_s(self) -> float | None:
        """How long the other side wants to be left alone, seconds (RFC 9110, 10.2.3: only the form in seconds)."""
        value = self.headers.get("retry-after", "")
        return float(value) if value.isascii() and value.isdigit() else None


class Watch:
    """Ends the connection that a request is made over when its time is up."""

    def __init__(self) -> None:
        self.has_rung = False
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def over(self, connection: socket.socket) -> None:
        """This is the connection: end it at once where the time is up already."""
        with self._lock:
            self._socket = connection
            if self.has_rung:
                _hang_up(connection)

    def ring(self) -> None:
        with self._lock:
            self.has_rung = True
            if self._socket is not None:
                _hang_up(self._socket)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch, longest_s: float) -> Iterator[None]:
    """`watch` ends requests of this thread over watched connections after `longest_s` seconds, headers included."""
    timer = threading.Timer(longest_s, watch.ring)
    timer.daemon = True
    timer.start()
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)
        timer.cancel()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        connection.shutdown(socket.SHUT_RDWR)


class _Watched:
    """A connection that tells the watch of its request over which socket it goes. The socket is doubled, since TLS
    takes the first one over."""

    _double: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        made: socket.socket = super()._new_conn()  # type: ignore[misc]
        self._double = made.dup()
        self._tell()
        return made

    def request(self, *args: Any, **kwargs: Any) -> None:
        self._tell()
        super().request(*args, **kwargs)  # type: ignore[misc]

    def close(self) -> None:
        super().close()  # type: ignore[misc]
        if self._double is not None:
            self._double.close()
            self._double = None

    def _tell(self) -> None:
        if (watch := _watch.get()) is not None and self._double is not None:
            watch.over(self._double)


class _Connection(_Watched, HTTPConnection):
    pass


class _TLSConnection(_Watched, HTTPSConnection):
    pass


class WatchedPool(urllib3.HTTPConnectionPool):
    """Connections whose requests end in time, see `watched`."""

    ConnectionCls = _Connection


class WatchedTLSPool(urllib3.HTTPSConnectionPool):
    """The same over TLS."""

    ConnectionCls = _TLSConnection


class WatchedManager(urllib3.PoolManager):
    """Watched pools by the address that is asked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.pool_classes_by_scheme = {"http": WatchedPool, "https": WatchedTLSPool}


def ask(
    pool: WatchedManager | WatchedPool | WatchedTLSPool,
    method: str,
    url: str,
    *,
    name: str,
    headers: dict[str, str],
    body: bytes | None = None,
    most_bytes: int = ANSWER_BYTES,
) -> Answer:
    """One request, of whose answer at most `most_bytes` are read. SendFailure, in words that begin with `name`, where
    there was no answer: `unknown` unless no connection had come about."""
    watch, until = Watch(), time.monotonic() + LONGEST_S
    try:
        with watched(watch, LONGEST_S):
            response = pool.request(
                method,
                url,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=TIMEOUT_S / 2, read=TIMEOUT_S),
                redirect=False,
                retries=False,
                preload_content=False,
            )
        try:
            if watch.has_rung:  # headers that broke off in their middle pass for whole ones
                raise TimeoutError
            text, is_cut = _read(response, until, most_bytes)
            return Answer(response.status, text, {k.lower(): v for k, v in response.headers.items()}, is_cut)
        finally:
            response.close()
    except (HTTPError, OSError) as error:
        raise _failure(name, error, has_rung=watch.has_rung) from error


def _failure(name: str, error: Exception, *, has_rung: bool) -> SendFailure:
    """What it means that no answer came."""
    if has_rung:
        return SendFailure(f"{name} did not answer within {LONGEST_S:.0f} s.", everywhere=True, unknown=True)
    if isinstance(error, NewConnectionError | NameResolutionError | ConnectTimeoutError | SSLError):
        return SendFailure(f"{name} can't be reached: {words(error)}.", everywhere=True)
    if isinstance(error, TimeoutError):
        return SendFailure(f"{name} did not answer within {TIMEOUT_S:.0f} s.", everywhere=True, unknown=True)
    return SendFailure(f"{name} broke off: {words(error)}.", everywhere=True, unknown=True)


def _read(response: Any, until: float, most_bytes: int) -> tuple[str, bool]:
    """(the beginning of the body, whether there was more of it); one that drips is left after LONGEST_S."""
    found = b""
    while time.monotonic() < until:
        chunk = response.read1(64 * 1024)
        found += chunk
        if not chunk or len(found) > most_bytes:
            return found[:most_bytes].decode("utf-8", "replace"), len(found) > most_bytes
    return found.decode("utf-8", "replace"), True


def words(error: Exception) -> str:
    """What urllib3 means, without its objects and addresses. It is cut by whoever keeps it, once secrets are struck."""
    if isinstance(error, NameResolutionError):
        return "no such host"
    if isinstance(error, ConnectTimeoutError):
        return f"no connection within {TIMEOUT_S / 2:.0f} s"
    text = str(error)
    if isinstance(error, SSLError):
        return f"TLS failed ({text.rpartition('] ')[2] or text})"
    return text.rpartition(": ")[2] or type(error).__name__
