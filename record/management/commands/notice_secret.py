"""Keeps the secret of a channel."""

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from record.notices.finding import find_channel
from record.notices.models import ChannelKind
from record.notices.secrets import keep_secret, new_webhook_key, variable_of


class Command(BaseCommand):
    help = (
        "Keep the secret of a channel (a webhook's key, Apprise's address), read from the terminal or standard input."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("channel", metavar="LAB/NAME")
        parser.add_argument("--make", action="store_true", help="make a new key for a webhook, and print it once")

    def handle(self, *args: Any, channel: str, make: bool, **options: Any) -> None:
        row = find_channel(channel)
        name = variable_of(row)
        if not name or row.kind == ChannelKind.MATRIX:
            kind = row.get_kind_display()
            raise CommandError(f"{row} ({kind}) has no secret of its own. Bots of Matrix: manage.py matrix_sign_in.")
        if make and row.kind != ChannelKind.WEBHOOK:
            raise CommandError("Only the key of a webhook can be made here; what Apprise needs, the service gives you.")
        value = new_webhook_key() if make else _read(f"Secret of {row}: ")
        if not value.strip():
            raise CommandError("Nothing was given, so nothing was kept.")
        path = keep_secret(name, value)
        self.stdout.write(f"Kept in {path}, for the user under whom Conductor runs.")
        if make:
            self.stdout.write(f"Give this key to whoever receives the webhook; it is not shown again:\n{value}")


def _read(prompt: str) -> str:
    return getpass.getpass(prompt) if sys.stdin.isatty() else sys.stdin.read().strip()
