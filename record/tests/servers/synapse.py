"""A real Matrix homeserver (Synapse on SQLite), which can be killed and started again on the same data."""

import base64
import hashlib
import hmac
import importlib.util
import json
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError

from record.tests.servers.ports import free_port

START_S = 120

CONFIG = """
server_name: localhost
pid_file: {folder}/pid
listeners:
  - port: {port}
    bind_addresses: ['127.0.0.1']
    type: http
    tls: false
    resources: [{{names: [client], compress: false}}]
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
media_store_path: {folder}/media
signing_key_path: {folder}/signing.key
log_config: {folder}/log.yaml
registration_shared_secret: "{secret}"
macaroon_secret_key: "{secret}m"
form_secret: "{secret}f"
report_stats: false
trusted_key_servers: []
suppress_key_server_warning: true
federation_domain_whitelist: []
url_preview_enabled: false
presence: {{enabled: false}}
bcrypt_rounds: 4
max_upload_size: 200K
rc_login: {{address: {{per_second: 1000, burst_count: 1000}}, account: {{per_second: 1000, burst_count: 1000}}}}
rc_room_creation: {{per_second: 1000, burst_count: 1000}}
rc_joins: {{local: {{per_second: 1000, burst_count: 1000}}}}
"""
LOG = """
version: 1
handlers: {{file: {{class: logging.FileHandler, filename: {folder}/synapse.log}}}}
root: {{level: WARNING, handlers: [file]}}
"""


def is_installed() -> bool:
    return importlib.util.find_spec("synapse") is not None


class Homeserver:
    """One server with an administrator, and what tests need of the client-server API."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="conductor-synapse-"))
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._secret = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self.config = self.folder / "homeserver.yaml"
        self.config.write_text(CONFIG.format(folder=self.folder, port=self.port, secret=self._secret))
        (self.folder / "log.yaml").write_text(LOG.format(folder=self.folder))
        key = base64.b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        (self.folder / "signing.key").write_text(f"ed25519 a_test {key}\n")
        self._argv = [sys.executable, "-m", "synapse.app.homeserver", "-c", str(self.config)]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        first = not (self.folder / "homeserver.db").exists()
        with open(self.folder / "stderr", "ab") as log:
            self._process = subprocess.Popen(self._argv, cwd=self.folder, stdout=log, stderr=log)
        self._wait()
        if first:
            self.admin = self.register("admin", admin=True)["access_token"]

    def stop(self) -> None:
        """SIGTERM, and SIGKILL where that does not help."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """As a power cut would."""
        assert self._process
        self._process.kill()
        self._process.wait()
        self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def register(self, name: str, *, admin: bool = False) -> dict[str, Any]:
        """A new user with the password pw-NAME, signed in."""
        nonce = self.ask("GET", "/_synapse/admin/v1/register")["nonce"]
        words = [nonce, name, f"pw-{name}", "admin" if admin else "notadmin"]
        mac = hmac.new(self._secret.encode(), "\0".join(words).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": f"pw-{name}", "admin": admin, "mac": mac}
        return self.ask("POST", "/_synapse/admin/v1/register", body)

    def bot(self, name: str, *, limited: bool = False) -> str:
        """A bot's kept sign-in; unless `limited`, it may write as fast as it likes."""
        found = self.register(name)
        if not limited:
            path = f"/_synapse/admin/v1/users/{quote(found['user_id'])}/override_ratelimit"
            self.ask("POST", path, {"messages_per_second": 0, "burst_count": 0}, token=self.admin)
        return json.dumps({"homeserver": self.url, "user_id": found["user_id"], "access_token": found["access_token"]})

    def room(self, alias: str, **options: Any) -> str:
        """A room that everybody may enter, unless `options` say otherwise; its id."""
        body = {"room_alias_name": alias, "preset": "public_chat"} | options
        return str(self.ask("POST", "/_matrix/client/v3/createRoom", body, token=self.admin)["room_id"])

    def messages(self, room_id: str) -> list[dict[str, Any]]:
        """All messages of a room, oldest first."""
        path = f"/_matrix/client/v3/rooms/{quote(room_id)}/messages?dir=b&limit=200"
        found = self.ask("GET", path, token=self.admin)["chunk"]
        return [event for event in reversed(found) if event["type"] == "m.room.message"]

    def texts(self, room_id: str) -> list[str]:
        return [event["content"]["body"] for event in self.messages(room_id)]

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "") -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = urllib3.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=30)
        assert answer.status == 200, answer.data
        found: dict[str, Any] = answer.json()
        return found

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            assert self._process
            if self._process.poll() is not None:
                break
            try:
                urllib3.request("GET", f"{self.url}/health", timeout=5, retries=False)
            except HTTPError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"Synapse does not start: {(self.folder / 'stderr').read_text()[-2000:]}")
