"""A receiver of webhooks, whose answers a test chooses."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookHost:
    """Answers `status` with `headers`; keeps what it was sent."""

    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    def start(self) -> None:
        host = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # noqa: N802
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                host.received.append(Received(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(host.status)
                for name, value in host.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
