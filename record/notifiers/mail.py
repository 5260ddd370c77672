"""E-mail over SMTP (RFC 5321): text and HTML with inline pictures, threaded by run. At least once.

A message keeps its Message-ID however often it is sent, so that most mail programs show a doubled one once.
"""

import re
import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, parseaddr

from record.notifiers import TIMEOUT_S, Message, SendFailure, Sent, Where, texts

SECURITY = ("none", "starttls", "tls")
_BREAKS = re.compile(r"[\r\n\x00]+")


@dataclass(frozen=True)
class MailServer:
    """Where mail is handed in. `security` is one of SECURITY; without a user nobody signs in."""

    host: str
    port: int = 25
    user: str = ""
    password: str = ""
    security: str = "none"
    sender: str = "conductor@localhost"

    def __str__(self) -> str:
        return f"the mail server {self.host}:{self.port}"


def send(message: Message, where: Where) -> Sent:
    """Hand in `message` for the one address in `where.target`; `where.options["server"]` is a MailServer."""
    server: MailServer = where.options["server"]
    if not server.host:
        raise SendFailure(
            "No mail server is set: put its name into CONDUCTOR_EMAIL_HOST (see docs/notices.md).", everywhere=True
        )
    letter = compose(message, to=where.target, sender=server.sender)
    with _session(server) as session:
        try:
            session.send_message(letter, from_addr=parseaddr(server.sender)[1], to_addrs=[where.target])
        except smtplib.SMTPRecipientsRefused as error:
            code, answer = next(iter(error.recipients.values()))
            raise _refused(f"{server} refuses the address {where.target}", code, answer) from error
        except smtplib.SMTPSenderRefused as error:
            words = f"{server} refuses the sender {server.sender} (CONDUCTOR_EMAIL_FROM)"
            raise SendFailure(f"{words}: {_said(error.smtp_code, error.smtp_error)}.", everywhere=True) from error
        except smtplib.SMTPDataError as error:
            raise _refused(f"{server} refuses the message", error.smtp_code, error.smtp_error) from error
    return Sent(remote_id=str(letter["Message-ID"]))


def compose(message: Message, *, to: str, sender: str) -> EmailMessage:
    """The mail; SendFailure where the address is none."""
    domain = parseaddr(sender)[1].rpartition("@")[2] or "localhost"
    letter = EmailMessage(policy=SMTP)
    try:
        letter["From"] = sender
        letter["To"] = to
    except (ValueError, IndexError, MessageError) as error:
        raise SendFailure(f"{to!r} is no e-mail address.", transient=False) from error
    letter["Subject"] = _BREAKS.sub(" ", message.subject)[:250]
    letter["Date"] = formatdate(message.items[0].at.timestamp() if len(message.items) == 1 else None)
    letter["Message-ID"] = f"<{message.uuid}@{domain}>"
    letter["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office note in answer
    if message.thread:
        root = f"<run-{message.thread}@{domain}>"
        letter["In-Reply-To"] = root
        letter["References"] = root
    letter.set_content(texts.plain(message))
    addresses = {
        picture.caption: f"{number}.{message.uuid}@{domain}" for number, picture in enumerate(message.pictures)
    }
    html = texts.page(message, {caption: f"cid:{cid}" for caption, cid in addresses.items()})
    letter.add_alternative(html, subtype="html")
    page = letter.get_payload()[1]  # type: ignore[index]
    for picture in message.pictures:
        kind, _, subtype = picture.media_type.partition("/")
        page.add_related(  # type: ignore[union-attr]
            picture.data,
            kind,
            subtype,
            cid=f"<{addresses[picture.caption]}>",
            filename=picture.name,
            disposition="inline",
        )
    return letter


@contextmanager
def _session(server: MailServer) -> Iterator[smtplib.SMTP]:
    """A session that is signed in. What fails before the message is handed in did certainly not send it."""
    session = _connect(server)
    try:
        _secure_and_sign_in(session, server)
        try:
            yield session
        except smtplib.SMTPResponseException as error:
            raise _refused(f"{server} refuses", error.smtp_code, error.smtp_error) from error
        except OSError as error:  # smtplib's own errors among them
            raise SendFailure(
                f"{server} broke off while the message was handed in ({_words(error)}).", everywhere=True, unknown=True
            ) from error
    finally:
        session.close()


def _connect(server: MailServer) -> smtplib.SMTP:
    try:
        if server.security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT_S, context=context)
        return smtplib.SMTP(server.host, server.port, timeout=TIMEOUT_S)
    except smtplib.SMTPResponseException as error:
        said = _said(error.smtp_code, error.smtp_error)
        raise SendFailure(f"{server} does not let us in: {said}.", everywhere=True) from error
    except (OSError, smtplib.SMTPException) as error:
        raise SendFailure(f"{server} can't be reached: {_words(error)}.", everywhere=True) from error


def _secure_and_sign_in(session: smtplib.SMTP, server: MailServer) -> None:
    try:
        if server.security == "starttls":
            session.starttls(context=ssl.create_default_context())
        if server.user:
            session.login(server.user, server.password)
    except smtplib.SMTPAuthenticationError as error:
        raise SendFailure(
            f"{server} refuses the user {server.user!r} or the password (CONDUCTOR_EMAIL_USER, "
            f"CONDUCTOR_EMAIL_PASSWORD): {_said(error.smtp_code, error.smtp_error)}.",
            everywhere=True,
        ) from error
    except smtplib.SMTPNotSupportedError as error:
        raise SendFailure(
            f"{server} can't do what is asked of it ({error}): see CONDUCTOR_EMAIL_SECURITY and CONDUCTOR_EMAIL_USER.",
            everywhere=True,
        ) from error
    except (OSError, smtplib.SMTPException) as error:
        raise SendFailure(f"{server} can't be talked to: {_words(error)}.", everywhere=True) from error


def _refused(what: str, code: int, words: bytes | str) -> SendFailure:
    """4xx: later, perhaps (421: the server as a whole); 5xx: never (RFC 5321, 4.2.1)."""
    return SendFailure(f"{what}: {_said(code, words)}.", transient=code < 500, everywhere=code == 421)


def _said(code: int, words: bytes | str) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else words
    return f"{code} {' '.join(text.split())}"[:300]


def _words(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:.0f} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
