"""A real SMTP server (aiosmtpd), which can go down, refuse, or fall silent."""

import socket
import threading
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from record.tests.servers.ports import free_port


class Box:
    """What was handed in. `answers`: recipient -> what the server says to it instead of taking it."""

    def __init__(self) -> None:
        self.letters: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.answers: dict[str, str] = {}
        self.at_data = ""

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.at_data:
            return self.at_data
        self.letters.append(cast(EmailMessage, message_from_bytes(envelope.content, policy=default)))
        self.recipients += envelope.rcpt_tos
        return "250 taken"


READY_S = 60  # a machine may be busy


class MailHost:
    """A mail server on a port of its own, with one account if `account` is given (user name, password)."""

    def __init__(self, account: tuple[str, str] | None = None) -> None:
        self.port = free_port()
        self.box = Box()
        self.account = account
        self._controller: Controller | None = None

    def start(self) -> None:
        options: dict[str, Any] = {}
        if self.account:
            options = {"authenticator": self._knows, "auth_required": True, "auth_require_tls": False}
        self._controller = Controller(self.box, hostname="127.0.0.1", port=self.port, ready_timeout=READY_S, **options)
        self._controller.start()

    def stop(self) -> None:
        if self._controller:
            self._controller.stop()
            self._controller = None

    def _knows(self, server: Any, session: Any, envelope: Any, mechanism: str, data: LoginPassword) -> AuthResult:
        given = (data.login.decode(), data.password.decode())
        return AuthResult(success=given == self.account, handled=False)


class SilentHost:
    """Takes connections, and says nothing for as long as they last."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        try:
            while True:
                self._kept.append(self._server.accept()[0])
        except OSError:
            return

    def stop(self) -> None:
        self._server.close()
        for each in self._kept:
            each.close()
