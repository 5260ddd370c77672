"""HTTP for notifiers: bounded in time and size, no redirects, no proxies from the environment."""

import json
import time
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    SSLError,
    TimeoutError,
)

from record.notifiers import TIMEOUT_S, SendFailure

ANSWER_BYTES = 256 * 1024
LONGEST_S = 30.0


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


def ask(
    pool: urllib3.PoolManager | urllib3.HTTPConnectionPool,
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
    until = time.monotonic() + LONGEST_S
    timeout = urllib3.Timeout(connect=TIMEOUT_S / 2, read=TIMEOUT_S)
    try:
        response = pool.request(
            method,
            url,
            body=body,
            headers=headers,
            timeout=timeout,
            redirect=False,
            retries=False,
            preload_content=False,
        )
        try:
            text, is_cut = _read(response, until, most_bytes)
            return Answer(response.status, text, {k.lower(): v for k, v in response.headers.items()}, is_cut)
        finally:
            response.close()
    except (NewConnectionError, NameResolutionError, ConnectTimeoutError, SSLError) as error:
        raise SendFailure(f"{name} can't be reached: {words(error)}.", everywhere=True) from error
    except TimeoutError as error:
        raise SendFailure(f"{name} did not answer within {TIMEOUT_S:.0f} s.", everywhere=True, unknown=True) from error
    except (ProtocolError, HTTPError, OSError) as error:
        raise SendFailure(f"{name} broke off: {words(error)}.", everywhere=True, unknown=True) from error


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
    """What urllib3 means, without its objects and addresses."""
    if isinstance(error, NameResolutionError):
        return "no such host"
    if isinstance(error, ConnectTimeoutError):
        return f"no connection within {TIMEOUT_S / 2:.0f} s"
    text = str(error)
    if isinstance(error, SSLError):
        return f"TLS failed ({text.rpartition('] ')[2] or text})"[:300]
    return text.rpartition(": ")[2][:300] or type(error).__name__
