"""`manage.py password_link NAME`: a one-time link by which somebody sets a new password."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.accounts.addresses import site_address
from conductor_site.accounts.passwords import make_password_link
from record.errors import ConductorError
from record.services import Author


class Command(BaseCommand):
    help = "Print a one-time link by which somebody sets a new password, where nobody can make them one in the admin."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--address", default="", help="where the site is reached, as https://conductor.example.org")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"There is no account {options['username']}.")
        try:
            made = make_password_link(user=user, author=Author.command_line())
            address = site_address("new-password", made.secret, base=options["address"])
        except ConductorError as error:
            raise CommandError(error.message) from error
        self.stdout.write(
            f"Whoever opens this link sets the password of {user.get_username()}.\n"
            f"It works once, until {made.row.expires_at:%d %B %Y %H:%M %Z}.\n\n  {address}\n"
        )
