"""Signs a bot in at its homeserver, once."""

import getpass
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from record.models import Lab
from record.notices.models import ChannelKind
from record.notices.secrets import keep_secret, read_secret, variable
from record.notifiers import SendFailure
from record.notifiers.matrix import sign_in


class Command(BaseCommand):
    help = "Sign a bot of a lab in at its Matrix homeserver, and keep the sign-in. The password itself is not kept."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("lab", metavar="LAB", help="the lab's short name")
        parser.add_argument("identity", metavar="IDENTITY", help="the bot's role, as channels name it: conductor")
        parser.add_argument("--homeserver", required=True, metavar="https://…")
        parser.add_argument("--user", required=True, metavar="@NAME:SERVER", help="the bot's account")
        parser.add_argument("--again", action="store_true", help="replace the sign-in that is kept")

    def handle(
        self, *args: Any, lab: str, identity: str, homeserver: str, user: str, again: bool, **options: Any
    ) -> None:
        if not Lab.objects.filter(slug=lab).exists():
            known = ", ".join(Lab.objects.values_list("slug", flat=True)) or "there is none yet"
            raise CommandError(f"There is no lab {lab}: {known}.")
        name = variable(lab, ChannelKind.MATRIX, identity)
        if read_secret(name) and not again:
            raise CommandError(
                f"The bot {identity} of {lab} is signed in ({name}). With a new sign-in, a notice that is just being "
                "sent may be looked for in its room first. If that is what you want: --again."
            )
        password = getpass.getpass(f"Password of {user}: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
        try:
            kept = sign_in(homeserver=homeserver, user=user, password=password, device=f"Conductor, {lab}")
        except SendFailure as failure:
            raise CommandError(failure.message) from failure
        path = keep_secret(name, kept)
        self.stdout.write(f"Signed in; kept in {path}, for the user under whom Conductor runs.")
