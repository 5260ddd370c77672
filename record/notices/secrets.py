"""The secrets of channels: never in the database. Each has a name that follows from its lab and channel, so that nobody
can point a channel at another lab's secret. It is looked for in the environment (NAME, or a file named by NAME_FILE),
then in the folder of secrets, where commands put it."""

import base64
import os
import secrets as random
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from record.naming import shouted
from record.notices.models import Channel, ChannelKind


def variable_of(channel: Channel) -> str:
    """The name of the channel's secret; "" where it needs none."""
    if channel.lab is None or channel.kind == ChannelKind.EMAIL:
        return ""
    if channel.kind == ChannelKind.MATRIX:
        return variable(channel.lab.slug, channel.kind, channel.identity or "conductor")
    return variable(channel.lab.slug, channel.kind, channel.name)


def variable(lab_slug: str, kind: str, name: str) -> str:
    """CONDUCTOR_NOTICE__LAB__KIND_NAME."""
    return "__".join(["CONDUCTOR_NOTICE", shouted(lab_slug), shouted(f"{kind}_{name}")])


def secret_of(channel: Channel) -> str:
    """The channel's secret; "" where there is none."""
    name = variable_of(channel)
    return read_secret(name) if name else ""


def read_secret(name: str) -> str:
    """What is kept under the name; "" where nothing is."""
    if value := os.environ.get(name):
        return value.strip()
    path = Path(os.environ.get(f"{name}_FILE") or folder() / name)
    with suppress(OSError):
        return path.read_text().strip()
    return ""


def keep_secret(name: str, value: str) -> Path:
    """Write it into the folder of secrets, for its owner's eyes alone; where it now lies."""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder() / name
    scratch = path.with_name(f".{name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(value.strip() + "\n")
    scratch.rename(path)
    return path


def kept_secrets(where: Path | None = None) -> list[Path]:
    """The files of all secrets that are kept in the folder of secrets, or in another like it."""
    return sorted((where or folder()).glob("CONDUCTOR_NOTICE__*"))


def new_webhook_key() -> str:
    """A key as Standard Webhooks wants it: whsec_ and base64 of 32 random bytes."""
    return f"whsec_{base64.b64encode(random.token_bytes(32)).decode()}"


def folder() -> Path:
    return Path(settings.NOTICE_SECRETS)
