"""How notices leave: one module a way. No models, no settings: a message and a place in, Sent out, or SendFailure.

To add one: write NAME.py with `send(message, where)`, add it to NOTIFIERS, its kind to ChannelKind in
record/notices/models.py (with a migration), what its place is made of to record/notices/places.py, and say in
docs/notices.md how it is set up.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.module_loading import import_string

from record.errors import AdapterError

QUOTED_CHARS = 16  # of a part of a secret that is struck by itself; shorter ones are ordinary words too
TIMEOUT_S = 15.0  # for each thing that is waited for: a connection, an answer


@dataclass(frozen=True)
class Picture:
    """A small picture to be shown with a message, as PNG or JPEG; `width` and `height` in pixels."""

    name: str
    caption: str
    media_type: str
    data: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Item:
    """One thing that happened. `link` is empty where the site's address is not known; `facts` are for programs."""

    title: str
    lines: tuple[str, ...]
    link: str
    at: datetime
    topic: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """What is sent: one thing that happened, or several together. `doubtful`: an earlier attempt may have arrived."""

    uuid: UUID
    subject: str
    items: tuple[Item, ...]
    pictures: tuple[Picture, ...] = ()
    thread: UUID | None = None  # the run that all of it is about
    doubtful: bool = False


@dataclass(frozen=True)
class Where:
    """A place. `secret`: the channel's own (a key, an address, a bot's sign-in); `options` differ by kind."""

    target: str
    secret: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def secrets(self) -> list[str]:
        """The secret and what of it may be quoted by itself: an access token within JSON, the words of an address."""
        words = re.split(r"[^A-Za-z0-9._~+-]+", self.secret)
        return [self.secret, *(word for word in words if len(word) >= QUOTED_CHARS)]


@dataclass(frozen=True)
class Sent:
    """What the other side calls it, and what it did not take of it, in words."""

    remote_id: str = ""
    note: str = ""


class SendFailure(AdapterError):
    """It was not sent, or nobody can say whether it was (`unknown`).

    Not `transient`: this message can't be sent however often it is tried. `everywhere`: the place as a whole can't be
    reached just now, so the other messages for it wait too. `wait_s`: how long the other side wants to be left alone.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = True,
        everywhere: bool = False,
        unknown: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message, transient=transient)
        self.everywhere = everywhere
        self.unknown = unknown
        self.wait_s = wait_s


Send = Callable[[Message, Where], Sent]

NOTIFIERS = {
    "email": "record.notifiers.mail:send",
    "matrix": "record.notifiers.matrix:send",
    "webhook": "record.notifiers.webhook:send",
    "apprise": "record.notifiers.others:send",
}


def notifier(kind: str) -> Send:
    """The function that sends over channels of this kind; SendFailure where there is none."""
    path = NOTIFIERS.get(kind)
    if path is None:
        raise SendFailure(f"Nothing that is installed here sends over channels of the kind {kind!r}.", transient=False)
    send: Send = import_string(path.replace(":", "."))
    return send
