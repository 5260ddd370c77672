"""`manage.py first_administrator`: a one-time link for whoever sets this installation up."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.accounts.addresses import site_address
from conductor_site.accounts.invitations import make_first_administrator
from record.errors import ConductorError


class Command(BaseCommand):
    help = "Print a one-time link by which the first administrator makes their account, and their lab."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--lab", required=True, help="name of the first lab; made where there is none such")
        parser.add_argument("--address", default="", help="where the site is reached, as https://conductor.example.org")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = make_first_administrator(lab_name=options["lab"])
            address = site_address("join", made.secret, base=options["address"])
        except ConductorError as error:
            raise CommandError(error.message) from error
        self.stdout.write(
            f"Whoever opens this link first becomes administrator of {made.row.lab} and keeps this installation.\n"
            f"It works once, until {made.row.expires_at:%d %B %Y %H:%M %Z}; run this again for another.\n\n"
            f"  {address}\n"
        )
