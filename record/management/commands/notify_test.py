"""Tries a channel, and says in words what is wrong."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from record.models import Channel, Delivery, SenderTurn
from record.notices.finding import find_channel
from record.notices.models import ChannelKind
from record.notices.places import how_to_give
from record.notices.secrets import secret_of, variable_of
from record.notices.services import send_test
from record.notifiers import SendFailure
from record.redaction import redact


class Command(BaseCommand):
    help = "Send a test over a channel (LAB/NAME, NAME, or a person's user name), and say in words what is wrong."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("channel", metavar="CHANNEL")

    def handle(self, *args: Any, channel: str, **options: Any) -> None:
        row = find_channel(channel)
        for line in _remarks(row):
            self.stdout.write(line)
        wrong = 0
        for recipient, outcome in send_test(row, asked_by="notify_test"):
            place = recipient or row.address or str(row)
            if isinstance(outcome, SendFailure):
                wrong += 1
                self.stdout.write(self.style.ERROR(f"{place}: {redact(outcome.message)}"))
            else:
                told = f" {redact(outcome.note)}" if outcome.note else ""
                self.stdout.write(self.style.SUCCESS(f"{place}: a test was sent.{told} Look whether it is there."))
        if wrong:
            raise CommandError(f"{row} does not work yet: mend what is said above, and try again.")


def _remarks(row: Channel) -> list[str]:
    """What is worth knowing besides: nothing of it keeps the test from being sent."""
    said = [f"{row}: {row.get_kind_display()}" + (f" to {row.address}" if row.address else "")]
    if not row.enabled:
        said.append("It is switched off, so nothing but this test is sent over it.")
    if row.lab_id and not row.topics:
        said.append("It has no topic, so nothing but tests is sent over it.")
    if not settings.BASE_URL:
        said.append("CONDUCTOR_BASE_URL is not set, so notices hold no links.")
    if row.kind == ChannelKind.EMAIL:
        said.append(f"Mail server: {settings.EMAIL_HOST or 'none (CONDUCTOR_EMAIL_HOST)'}:{settings.EMAIL_PORT}.")
    elif name := variable_of(row):
        said.append(f"Secret {name}: {'found' if secret_of(row) else f'missing; give it by {how_to_give(row)}'}.")
    waiting = Delivery.objects.open().filter(channel=row).count()
    if waiting:
        turn = SenderTurn.objects.filter(pk=1).first()
        busy = turn is not None and turn.until is not None and turn.until > timezone.now()
        said.append(f"{waiting} notices wait for it; {'they are being sent' if busy else 'conduct has them sent'}.")
    return said
