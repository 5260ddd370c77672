"""Matrix (client-server API v1.11): a formatted text in a room, then small pictures where the room allows them.

Exactly once: the transaction id is the delivery's uuid, and a homeserver answers a repeated one with the event that is
there, for one access token (https://spec.matrix.org/v1.11/client-server-api/#transaction-identifiers). Homeservers
forget transaction ids after a while, and a new sign-in has ones of its own; so each event also carries the uuid, and
where an earlier attempt may have arrived the room is looked through first.
"""

import ipaddress
import json
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

from record.notifiers import Message, Picture, SendFailure, Sent, Where, texts
from record.notifiers.web import ANSWER_BYTES, Answer, WatchedManager, ask
from record.redaction import redact

MARK = "conductor.delivery"  # the key in an event's content that holds the uuid
LOOKED_THROUGH, A_PAGE = 200, 50
PAGE_BYTES = 8 * 1024 * 1024  # A_PAGE events of 65,536 bytes at most, with what a homeserver says of each
TEXT_LIMIT_BYTES = 20_000  # an event may have 65,536 bytes in all
_pool = WatchedManager(num_pools=4, maxsize=4)


@dataclass(frozen=True)
class Bot:
    """One identity's kept sign-in."""

    homeserver: str
    user_id: str
    access_token: str

    @classmethod
    def read(cls, secret: str, told: str) -> "Bot":
        """From the JSON that `manage.py matrix_sign_in` keeps; SendFailure, with what to do (`told`), for all else."""
        try:
            found = json.loads(secret)
            bot = cls(*(str(found[name]) for name in ("homeserver", "user_id", "access_token")))
        except (ValueError, TypeError, KeyError) as error:
            raise SendFailure(f"The bot's sign-in is not one ({told}).", everywhere=True) from error
        if ":" not in bot.user_id:
            raise SendFailure(f"The bot's sign-in names no user ({told}).", everywhere=True)
        return replace(bot, homeserver=_checked_server(bot.homeserver))


def send(message: Message, where: Where) -> Sent:
    """Post `message` into the room `where.target` as the bot whose sign-in is `where.secret`."""
    told = str(where.options.get("sign_in", "manage.py matrix_sign_in"))
    room = _Room(Bot.read(where.secret, told), where.target, told)
    event_id = room.post(str(message.uuid), _text(message), doubtful=message.doubtful)
    note = ""
    for number, picture in enumerate(message.pictures, 1):
        try:
            note = room.post_picture(f"{message.uuid}.{number}", picture, doubtful=message.doubtful)
        except SendFailure as error:
            error.unknown = True  # the text is there
            raise
        if note:
            break
    return Sent(remote_id=event_id, note=note)


class _Room:
    """A room that the bot writes into; joined when first needed."""

    def __init__(self, bot: Bot, target: str, told: str) -> None:
        self.bot, self.told = bot, told
        self.name = target
        self.server = bot.homeserver
        self.id = target if target.startswith("!") else self._resolve(_alias(target, bot))
        if self._state("m.room.encryption"):
            raise SendFailure(
                f"The room {self.name} is encrypted, and notices are posted unencrypted: use one without encryption.",
                everywhere=True,
            )

    def post(self, transaction: str, content: dict[str, Any], *, doubtful: bool) -> str:
        """Post one event, once; its id."""
        if doubtful and (found := self._find(transaction)):
            return found
        path = f"/_matrix/client/v3/rooms/{quote(self.id, safe='')}/send/m.room.message/{quote(transaction, safe='')}"
        body = content | {MARK: transaction}
        answer = self._ask("PUT", path, body)
        if answer.status == 403:
            self._join()
            answer = self._ask("PUT", path, body)
        if answer.status == 200:
            return str(answer.json().get("event_id", ""))
        raise self._failure(answer, f"to write into {self.name}")

    def post_picture(self, transaction: str, picture: Picture, *, doubtful: bool) -> str:
        """Post one picture; in words, why not, where the homeserver takes none."""
        if doubtful and self._find(transaction):
            return ""
        path = f"/_matrix/media/v3/upload?filename={quote(picture.name, safe='')}"
        answer = self._ask("POST", path, picture.data, kind=picture.media_type)
        if answer.status in (400, 403, 404, 413, 415):
            return f"The homeserver takes no pictures ({self._said(answer)})."
        if answer.status != 200:
            raise self._failure(answer, "to upload a picture")
        info = {"mimetype": picture.media_type, "size": len(picture.data), "w": picture.width, "h": picture.height}
        content = {"msgtype": "m.image", "body": picture.caption, "url": answer.json().get("content_uri"), "info": info}
        self.post(transaction, content, doubtful=False)
        return ""

    def _find(self, transaction: str) -> str:
        """The id of the event that carries this uuid, among the newest of the room; "" where there is none."""
        wanted = {"types": ["m.room.message"], "senders": [self.bot.user_id]}
        where = f"/_matrix/client/v3/rooms/{quote(self.id, safe='')}/messages?dir=b&limit={A_PAGE}"
        start = ""
        for _ in range(LOOKED_THROUGH // A_PAGE):
            address = f"{where}&filter={quote(json.dumps(wanted))}{start}"
            answer = self._ask("GET", address, most_bytes=PAGE_BYTES)
            if answer.status == 403:
                return ""  # not in the room yet, so nothing of ours is there
            if answer.status != 200:
                raise self._failure(answer, f"to look through {self.name}")
            if answer.is_cut:  # "not among what was read" is not "not there"
                raise SendFailure(f"{self.server} sent too much, or too slowly, of {self.name}.", everywhere=True)
            page = answer.json()
            for event in page.get("chunk", []):
                content = event.get("content") if isinstance(event, dict) else None
                if isinstance(content, dict) and content.get(MARK) == transaction:
                    return str(event.get("event_id", ""))
            if not page.get("end"):
                break
            start = f"&from={quote(str(page['end']), safe='')}"
        return ""

    def _resolve(self, alias: str) -> str:
        answer = self._ask("GET", f"/_matrix/client/v3/directory/room/{quote(alias, safe='')}")
        if answer.status == 404:
            raise SendFailure(
                f"There is no room {alias} at {self.server}: make it, or write its address as the channel's.",
                everywhere=True,
            )
        if answer.status != 200:
            raise self._failure(answer, f"to find the room {alias}")
        return str(answer.json().get("room_id", ""))

    def _state(self, kind: str) -> bool:
        path = f"/_matrix/client/v3/rooms/{quote(self.id, safe='')}/state/{kind}"
        answer = self._ask("GET", path)
        if answer.status in (401, 429) or answer.status >= 500:
            raise self._failure(answer, f"to look at {self.name}")
        return answer.status == 200

    def _join(self) -> None:
        answer = self._ask("POST", f"/_matrix/client/v3/join/{quote(self.id, safe='')}", {})
        if answer.status in (200, 429) or answer.status >= 500 or answer.status == 401:
            if answer.status != 200:
                raise self._failure(answer, f"to join {self.name}")
            if self._state("m.room.encryption"):
                raise SendFailure(f"The room {self.name} is encrypted; use one without encryption.", everywhere=True)
            return
        raise SendFailure(
            f"{self.bot.user_id} may not enter {self.name} ({self._said(answer)}): invite it there.", everywhere=True
        )

    def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | None = None,
        *,
        kind: str = "",
        most_bytes: int = ANSWER_BYTES,
    ) -> Answer:
        headers = {"Authorization": f"Bearer {self.bot.access_token}", "Content-Type": kind or "application/json"}
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        name = f"The homeserver {self.server}"
        return ask(_pool, method, f"{self.server}{path}", name=name, headers=headers, body=data, most_bytes=most_bytes)

    def _said(self, answer: Answer) -> str:
        return _said(answer, self.bot.access_token)

    def _failure(self, answer: Answer, what: str) -> SendFailure:
        """What an answer means that is not the wanted one."""
        said, code = self._said(answer), answer.json().get("errcode")
        if answer.status == 429:
            wait_s = _wait_s(answer.json().get("retry_after_ms")) or answer.retry_after_s or 5.0
            return SendFailure(f"{self.server} wants to be asked less often.", everywhere=True, wait_s=wait_s)
        if answer.status == 401:
            return SendFailure(
                f"{self.server} does not know the sign-in of {self.bot.user_id} ({said}): sign in again, {self.told}.",
                everywhere=True,
            )
        if answer.status == 403:
            return SendFailure(f"{self.bot.user_id} may not {what[3:]} ({said}): let it in its room.", everywhere=True)
        if answer.status == 413 or code == "M_TOO_LARGE":
            return SendFailure(f"{self.server} says that the message is too large.", transient=False)
        if 400 <= answer.status < 500:
            return SendFailure(
                f"{self.server} refuses {what}: {said}.", transient=answer.status == 404, everywhere=True
            )
        return SendFailure(f"{self.server} failed {what}: {said}.", everywhere=True, unknown=True)


def sign_in(*, homeserver: str, user: str, password: str, device: str) -> str:
    """Sign in once, and what is kept of it (JSON): the access token stays the same from then on.

    SendFailure, in words, where the homeserver does not let us in.
    """
    server = _checked_server(homeserver)
    body = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password,
        "initial_device_display_name": device,
    }
    name = f"The homeserver {server}"
    answer = ask(
        _pool, "POST", f"{server}/_matrix/client/v3/login", name=name,
        headers={"Content-Type": "application/json"}, body=json.dumps(body).encode(),
    )  # fmt: skip
    found = answer.json()
    if answer.status != 200 or "access_token" not in found:
        raise SendFailure(f"{name} does not let {user} in: {_said(answer, password)}.", transient=answer.status >= 500)
    return json.dumps(
        {"homeserver": server, "user_id": found["user_id"], "access_token": found["access_token"],
         "device_id": found.get("device_id", "")}
    )  # fmt: skip


def _checked_server(address: str) -> str:
    """The homeserver's address without a slash at its end; SendFailure unless what is sent there is encrypted, or never
    leaves this machine: it carries a password or an access token."""
    try:
        parts = urlsplit(address.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("https", "http") or parts.query or parts.fragment:
        raise SendFailure("That is no address of a homeserver: write https:// and its host.", everywhere=True)
    if parts.username or parts.password:
        raise SendFailure(f"The address of the homeserver {host} may hold no password.", everywhere=True)
    if parts.scheme == "http" and not _is_here(host):
        raise SendFailure(
            f"The homeserver {host} is to be reached by http://, which would show the bot's sign-in to the network: "
            "give its https:// address and sign in again.",
            everywhere=True,
        )
    return parts.geturl().rstrip("/")


def _is_here(host: str) -> bool:
    """Whether the host is this machine itself, by an address or a name that can mean nothing else (RFC 6761, 6.3)."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _alias(target: str, bot: Bot) -> str:
    """#name:server of what people write: name, #name, #name:server."""
    name = target if target.startswith("#") else f"#{target}"
    return name if ":" in name else f"{name}:{bot.user_id.partition(':')[2]}"


def _text(message: Message) -> dict[str, Any]:
    plain, html = texts.plain(message), texts.short_html(message)
    if len(plain.encode()) > TEXT_LIMIT_BYTES:
        cut = plain.encode()[:TEXT_LIMIT_BYTES].decode("utf-8", "ignore")
        return {"msgtype": "m.notice", "body": f"{cut}\n… (cut)"}
    content = {"msgtype": "m.notice", "body": plain.rstrip("\n")}
    if len(html.encode()) <= TEXT_LIMIT_BYTES:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def _wait_s(retry_after_ms: Any) -> float:
    """How long a homeserver wants to be left alone, seconds; 0 where what it says is no time."""
    return retry_after_ms / 1000 if isinstance(retry_after_ms, int | float) and 0 < retry_after_ms < 2**53 else 0.0


def _said(answer: Answer, *secrets: str) -> str:
    """What the homeserver says, without the `secrets` that it was sent."""
    found = answer.json()
    text = f"{found.get('errcode', '')} {found.get('error', '')}".strip()
    return f"{answer.status} {redact(text, secrets)}"[:300].strip()
