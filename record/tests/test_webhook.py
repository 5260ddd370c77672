"""Signed webhooks: what a receiver checks, and where they are not sent."""

import base64
import hashlib
import hmac
import ipaddress
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from record.models import Lab
from record.notices.secrets import new_webhook_key, variable_of
from record.notifiers import Item, Message, SendFailure, Where, web, webhook
from record.tests.notices_scene import happen, make_channel, send_now, states
from record.tests.servers.hooks import HookHost

KEY = new_webhook_key()


def message() -> Message:
    return Message(uuid4(), "Größe", (Item("Größe", (), "", timezone.now(), "conductor-log", {"kind": "run.finish"}),))


def place(host: HookHost, private: tuple[str, ...] = ("127.0.0.0/8",), path: str = "/hook?x=1") -> Where:
    return Where(f"http://127.0.0.1:{host.port}{path}", KEY, {"private": private})


def test_a_receiver_can_check_the_signature(hook_host: HookHost) -> None:
    told = message()
    webhook.send(told, place(hook_host))
    (got,) = hook_host.received
    assert got.path == "/hook?x=1" and got.headers["webhook-id"] == str(told.uuid)
    # As the specification's verification does it.
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    key = base64.b64decode(KEY.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    body = json.loads(got.body)
    assert body["type"] == "run.finish" and body["data"]["items"][0]["title"] == "Größe"


def test_the_signature_is_that_of_the_specifications_example() -> None:
    """From the Standard Webhooks specification, "Signature scheme"."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    found = webhook.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, secret)
    assert found["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1", "fd00::1", "0.1.2.3", "::ffff:127.0.0.1",
     "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1",
     "::a9fe:a9fe", "::ffff:0:7f00:1", "fec0::1", "5f00::1", "2001:0:7f00:1::", "224.0.0.1", "100.64.0.1", "::",
     "ff0e::1"],
)  # fmt: skip
def test_private_addresses_are_not_public(address: str) -> None:
    assert not webhook.is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700:4700::1111"])
def test_public_addresses_are(address: str) -> None:
    assert webhook.is_public(ipaddress.ip_address(address))


def test_a_private_address_is_refused_unless_it_is_allowed(hook_host: HookHost) -> None:
    for private in ((), ("10.0.0.0/8",), ("::1/128",)):
        with pytest.raises(SendFailure, match="not public.*CONDUCTOR_WEBHOOK_PRIVATE"):
            webhook.send(message(), place(hook_host, private=private))
    assert hook_host.received == []


def test_a_name_is_resolved_once(hook_host: HookHost, monkeypatch: Any) -> None:
    """A name that points elsewhere at the second look (rebinding) is not looked at twice."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host == "rebinding.example.org":
            asked.append(host)
            return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port, *args, **kwargs)
        return real(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    where = Where(f"http://rebinding.example.org:{hook_host.port}/", KEY, {"private": ["127.0.0.1/32"]})
    webhook.send(message(), where)
    assert len(asked) == 1
    assert hook_host.received[0].headers["host"] == f"rebinding.example.org:{hook_host.port}"


def test_every_address_of_a_name_must_be_allowed(monkeypatch: Any, hook_host: HookHost) -> None:
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 443)) for each in ("93.184.215.14", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: both)
    with pytest.raises(SendFailure, match="is at 127.0.0.1, which is not public"):
        webhook.send(message(), Where("https://two.example.org/", KEY, {"private": []}))


def test_redirects_are_not_followed(hook_host: HookHost) -> None:
    hook_host.status, hook_host.headers = 302, {"Location": f"http://127.0.0.1:{hook_host.port}/elsewhere"}
    with pytest.raises(SendFailure, match="points elsewhere"):
        webhook.send(message(), place(hook_host))
    assert [each.path for each in hook_host.received] == ["/hook?x=1"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("ftp://example.org/", "https://"),
        ("https:///x", "name a host"),
        ("https://u:p@example.org/", "no password"),
        ("https://example.org:99999/", "is none"),
        ("http://93.184.215.14/", "without TLS"),
        ("https://no-such-host.invalid/", "no such host"),
    ],
)
def test_addresses_that_are_none(target: str, words: str) -> None:
    with pytest.raises(SendFailure, match=words):
        webhook.send(message(), Where(target, KEY, {"private": []}))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_drips_is_left_in_time(scheme: str, monkeypatch: Any) -> None:
    """Headers byte by byte over http, the handshake of TLS over https; each byte is well within any limit for one."""
    monkeypatch.setattr(web, "LONGEST_S", 0.5)
    with dripping() as port:
        where = Where(f"{scheme}://127.0.0.1:{port}/", KEY, {"private": ("127.0.0.0/8",)})
        with pytest.raises(SendFailure, match="did not answer within") as failure:
            webhook.send(message(), where)
    assert failure.value.unknown and failure.value.everywhere


@contextmanager
def dripping() -> Iterator[int]:
    """The port of a server that begins an answer, of either kind, and never comes to its end."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):  # the sender left
                hello = connection.recv(64 * 1024)
                connection.sendall(b"\x16\x03\x03\x3f\xff" if hello[0] == 0x16 else b"HTTP/1.1 204 No Content\r\nx-y: ")
                while not over.wait(0.05):
                    connection.sendall(b"\x02")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        over.set()
        thread.join()


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "not base64!"])
def test_a_key_that_is_none(secret: str, hook_host: HookHost) -> None:
    with pytest.raises(SendFailure, match="notice_secret"):
        webhook.send(message(), Where(f"http://127.0.0.1:{hook_host.port}/", secret, {"private": ["127.0.0.0/8"]}))


@pytest.mark.parametrize(
    ("status", "state", "closed"),
    [(500, "pending", True), (404, "pending", True), (422, "given_up", False), (410, "given_up", False)],
)
@pytest.mark.django_db(transaction=True)
def test_what_an_answer_means(
    status: int, state: str, closed: bool, hook_host: HookHost, lab: Lab, monkeypatch: Any
) -> None:
    channel = make_channel(lab, "hook", "webhook", address=f"http://127.0.0.1:{hook_host.port}/")
    monkeypatch.setenv(variable_of(channel), KEY)
    hook_host.status = status
    happen(lab)
    send_now()
    channel.refresh_from_db()
    assert (states(), channel.closed_until is not None) == ([state], closed)


@pytest.mark.django_db(transaction=True)
def test_as_long_as_it_asks_to_be_left_alone(hook_host: HookHost, lab: Lab, monkeypatch: Any) -> None:
    channel = make_channel(lab, "hook", "webhook", address=f"http://127.0.0.1:{hook_host.port}/")
    monkeypatch.setenv(variable_of(channel), KEY)
    hook_host.status, hook_host.headers = 429, {"Retry-After": "900"}
    happen(lab)
    send_now()
    channel.refresh_from_db()
    assert channel.closed_until and (channel.closed_until - timezone.now()).total_seconds() > 800
