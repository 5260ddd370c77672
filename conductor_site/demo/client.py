"""A small client of the public HTTP API, as a script of a lab would write it."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

TIMEOUT_S = 30


class ApiError(RuntimeError):
    """The API refused; the text is the server's own."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"the API answered {status}: {body[:500]}")
        self.status = status


class NoAnswer(RuntimeError):
    """Nobody answered, or only that it can't be done just now (503): asking again may help."""


class Client:
    """Talks JSON with one Conductor. `address` is like http://127.0.0.1:8000."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.token = ""

    def sign_in(self, username: str, password: str) -> None:
        """Trade name and password for a token, which later calls carry."""
        self.token = self.post("token/", {"username": username, "password": password})["token"]

    def get(self, path: str) -> Any:
        """The JSON answer to a GET of /api/v1/`path`. Raises ApiError, or NoAnswer where asking again may help."""
        return self._send("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON answer to a POST of `body` to /api/v1/`path`. Raises like get."""
        return self._send("POST", path, body)

    def _send(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Token {self.token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(f"{self.address}/api/v1/{path}", data, headers, method=method)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - loopback address of ours
                return json.load(answer)
        except urllib.error.HTTPError as error:
            body_text = error.read().decode(errors="replace")
            raise NoAnswer(body_text) if error.code == 503 else ApiError(error.code, body_text) from error
        except (OSError, http.client.HTTPException) as error:  # refused, cut off half-way, timed out
            raise NoAnswer(str(error) or type(error).__name__) from error
