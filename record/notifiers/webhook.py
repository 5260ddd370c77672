"""Signed webhooks, by the Standard Webhooks specification 1.0 (https://www.standardwebhooks.com). At least once.

Headers: webhook-id (the same for each attempt), webhook-timestamp (seconds), webhook-signature (v1,<base64 of
HMAC-SHA256 over id.timestamp.body>). The host's addresses are checked, and one of those that were checked is connected
to, so that a name can't point elsewhere in between; redirects are refused.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import socket
import time
from typing import Any
from urllib.parse import SplitResult, urlsplit

from record.notifiers import Message, SendFailure, Sent, Where
from record.notifiers.web import Answer, WatchedPool, WatchedTLSPool, ask

PREFIX = "whsec_"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# All that is given out of IPv6 (RFC 4291, 2.4): outside it lie site-local addresses, NAT64's, IPv4 in other clothes.
_UNICAST = ipaddress.ip_network("2000::/3")
# Public by the registry, and yet ways to private addresses: 6to4 (RFC 3056), Teredo (RFC 4380).
_DISGUISES = [ipaddress.ip_network(each) for each in ("2002::/16", "2001::/32")]


def send(message: Message, where: Where) -> Sent:
    """Post `message` to the address `where.target`, signed with `where.secret`.

    `where.options["private"]`: networks (10.0.0.0/8) that may be reached although they are not public.
    """
    body = json.dumps(payload(message), ensure_ascii=False, separators=(",", ":")).encode()
    parts = split(where.target)
    allowed = [ipaddress.ip_network(each) for each in where.options.get("private", [])]
    address = _checked_address(parts, allowed)
    headers = sign(str(message.uuid), int(time.time()), body, where.secret) | {
        "Content-Type": "application/json",
        "Host": parts.netloc.rpartition("@")[2],
        "User-Agent": "Conductor",
    }
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    pool = _pool(parts, address)
    try:
        answer = ask(pool, "POST", path, name=f"The webhook at {parts.hostname}", headers=headers, body=body)
    finally:
        pool.close()
    _check(answer, parts)
    return Sent(remote_id=str(answer.status))


def payload(message: Message) -> dict[str, Any]:
    """What is posted: {"type", "timestamp", "data"}, `data` with one entry in `items` for each thing that happened."""
    return {
        "type": message.items[0].facts.get("kind", "notices") if len(message.items) == 1 else "notices",
        "timestamp": message.items[0].at.isoformat(),
        "data": {
            "subject": message.subject,
            "items": [
                item.facts | {"title": item.title, "lines": list(item.lines), "link": item.link, "topic": item.topic}
                for item in message.items
            ],
        },
    }


def sign(identifier: str, timestamp_s: int, body: bytes, secret: str) -> dict[str, str]:
    """The three headers; SendFailure where `secret` is none (whsec_ and base64 of at least 24 bytes)."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) < 24:
        raise SendFailure(
            "The webhook's key is none: whsec_ and base64 of 24 to 64 bytes, as manage.py notice_secret makes it.",
            everywhere=True,
        )
    digest = hmac.new(key, f"{identifier}.{timestamp_s}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(timestamp_s),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def split(target: str) -> SplitResult:
    """The address in its parts; SendFailure, in words, where it is none that can be posted to."""
    try:
        parts = urlsplit(target)
        port = parts.port
    except ValueError as error:
        raise SendFailure(f"The webhook's address is none ({error}).", transient=False) from error
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise SendFailure("The webhook's address must begin with https:// and name a host.", transient=False)
    if parts.username or parts.password:
        raise SendFailure("The webhook's address may hold no password: it is shown to people.", transient=False)
    return parts


def is_public(address: Address) -> bool:
    """Whether the address is one of the public internet, and no way round to a private one."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return is_public(address.ipv4_mapped)
        if address not in _UNICAST or any(address in network for network in _DISGUISES):
            return False
    return address.is_global and not address.is_multicast


def _checked_address(parts: SplitResult, allowed: list[Network]) -> str:
    """An address of the host, when all that it has may be reached; plain http only to private ones that are allowed."""
    host, port = str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SendFailure(f"The webhook at {host} can't be reached: no such host.", everywhere=True) from error
    addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    for text in addresses:
        address = ipaddress.ip_address(text)
        private = any(address in network for network in allowed if network.version == address.version)
        if not (private or is_public(address)):
            raise SendFailure(
                f"The webhook at {host} is at {text}, which is not public: webhooks are not sent there. Whoever keeps "
                "this installation can allow it in CONDUCTOR_WEBHOOK_PRIVATE.",
                everywhere=True,
            )
        if parts.scheme == "http" and not private:
            raise SendFailure(f"The webhook at {host} is without TLS: use https://.", everywhere=True)
    return addresses[0]


def _pool(parts: SplitResult, address: str) -> WatchedPool | WatchedTLSPool:
    """Connections to that very address; the certificate must be the host's."""
    if parts.scheme == "http":
        return WatchedPool(address, parts.port or 80)
    host = str(parts.hostname)
    return WatchedTLSPool(address, parts.port or 443, server_hostname=host, assert_hostname=host)


def _check(answer: Answer, parts: SplitResult) -> None:
    name, status = f"The webhook at {parts.hostname}", answer.status
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise SendFailure(
            f"{name} answers {status} and points elsewhere; that is not followed: give the final address.",
            everywhere=True,
        )
    if status in (429, 503):
        raise SendFailure(f"{name} answers {status}: too much.", everywhere=True, wait_s=answer.retry_after_s)
    if status in (400, 409, 413, 415, 422):
        raise SendFailure(f"{name} refuses the message: {status}.", transient=False)
    if status == 410:
        raise SendFailure(f"{name} answers 410: it is gone for good.", transient=False)
    raise SendFailure(f"{name} answers {status}.", everywhere=True, unknown=status >= 500)
