"""The site as it is installed: gunicorn and `conduct` with its task cluster, as processes of their own on loopback."""

import http.client
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from django.conf import settings

from bench.lab import until
from conductor_site.demo.supervisor import Child, open_door, web_server
from jobs.models import ConductLease, Pulse

TIMEOUT_S = 60


@dataclass
class Site:
    """The processes that run, and the port of the web server."""

    web: Child
    conduct: Child
    port: int

    @property
    def pids(self) -> list[int]:
        """Of the web server and of `conduct`; all others stem from them."""
        return [child.process.pid for child in (self.web, self.conduct) if child.process]

    def get(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """(status, body) of a GET over a connection of its own."""
        return ask(self.port, "GET", path, headers)

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """(status, body) of a POST of JSON over a connection of its own."""
        return ask(self.port, "POST", path, headers | {"Content-Type": "application/json"}, body)


@contextmanager
def running_site() -> Iterator[Site]:
    """A site whose web server answers, whose `conduct` ticks and whose workers take tasks; stopped at the end."""
    door = open_door(8600)
    logs = settings.DATA_DIR / "logs"
    conduct = Child("conduct", [sys.executable, "manage.py", "conduct"], logs / "conduct.log")
    site = Site(web_server(door, logs / "web.log"), conduct, door.getsockname()[1])
    try:
        site.conduct.start()
        site.web.start()
        until(lambda: answers(site.port), what="the web server answers")
        until(lambda: ConductLease.objects.exists(), what="conduct ticks")
        until(lambda: Pulse.objects.exclude(beat_at=None).exists(), what="a worker takes a task")
        yield site
    finally:
        site.web.stop()
        site.conduct.stop()
        door.close()


def start_time_s() -> float:
    """Seconds from starting the web server until it has answered a page; it is stopped again."""
    door = open_door(8700)
    port, web = door.getsockname()[1], web_server(door, settings.DATA_DIR / "logs" / "web.log")
    began = time.monotonic()
    web.start()
    try:
        until(lambda: answers(port), what="the web server answers", every_s=0.01)
        return time.monotonic() - began
    finally:
        web.stop()
        door.close()


def answers(port: int) -> bool:
    """Whether the sign-in page comes."""
    with suppress(OSError, http.client.HTTPException):
        return ask(port, "GET", "/sign-in/", {})[0] == 200
    return False


def ask(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, bytes]:
    """(status, body) of a request to loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
