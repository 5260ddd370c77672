"""All else through Apprise (https://github.com/caronc/apprise): Slack, Teams, ntfy, Telegram and a hundred more.

At least once. Apprise answers only yes or no and writes the reason to its log, so that is listened to.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from record.notifiers import Message, SendFailure, Sent, Where, texts
from record.redaction import redact

# What shows something on the machine itself, runs programs, or would go round the checks of our own channels.
_NOT_HERE = {"dbus", "glib", "qt", "kde", "gnome", "macosx", "windows", "syslog"}


def send(message: Message, where: Where) -> Sent:
    """Hand `message` to Apprise for the address `where.secret`."""
    import apprise

    scheme = where.secret.partition("://")[0].lower()
    if scheme in _NOT_HERE:
        raise SendFailure(
            f"Apprise's {scheme}:// speaks to this machine only, so it is of no use here.", transient=False
        )
    asset = apprise.AppriseAsset(app_id="Conductor", app_desc="Conductor", secure_logging=True, async_mode=False)
    speaker = apprise.Apprise(asset=asset)
    with _heard() as lines:
        if not (where.secret and speaker.add(where.secret)):
            raise SendFailure(
                f"Apprise does not know the address of this channel ({where.options.get('variable', 'its secret')}): "
                "see https://github.com/caronc/apprise/wiki.",
                everywhere=True,
            )
        if len(speaker) > 1:
            raise SendFailure(
                "The channel's secret holds several addresses, and a channel is one address: make a channel for each.",
                everywhere=True,
            )
        told = speaker.notify(title=message.subject, body=texts.plain(message), body_format=apprise.NotifyFormat.TEXT)
    if not told:
        said = " ".join(lines) or "without a reason"
        raise SendFailure(
            f"{scheme} did not take it: {redact(said, where.secrets())[-400:]}", everywhere=True, unknown=True
        )
    return Sent()


class _Ear(logging.Handler):
    """Keeps what is logged by the thread that it was made in."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.lines.append(record.getMessage())


@contextmanager
def _heard() -> Iterator[list[str]]:
    ear, logger = _Ear(), logging.getLogger("apprise")
    logger.addHandler(ear)
    try:
        yield ear.lines
    finally:
        logger.removeHandler(ear)
