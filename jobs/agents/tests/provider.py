"""A loopback double of an OpenAI-compatible service; what it answers is told by the test, what it was asked is kept."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Provider(ThreadingHTTPServer):
    """`status` and `body` are what is answered (a completion with `says` where there is no body)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.says = 200, None, ""
        self.choice: dict[str, Any] = {}
        self.headers: dict[str, str] = {}
        self.drip_s = self.wait_s = 0.0
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self) -> bytes:
        if self.body is not None:
            return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        message = {"role": "assistant", "content": self.says}
        choice = {"index": 0, "message": message, "finish_reason": "stop"} | self.choice
        usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
        told = {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "looker-2",
            "choices": [choice],
            "usage": usage,
        }
        return json.dumps(told).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body | {"path": self.path})
        self.server.keys.append(self.headers.get("Authorization", ""))
        time.sleep(self.server.wait_s)
        answer = self.server.answer()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            if not self.server.drip_s:
                self.wfile.write(answer)
                return
            for byte in answer:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(self.server.drip_s)
        except OSError:  # the client hung up
            return

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def serving() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        provider.server_close()
