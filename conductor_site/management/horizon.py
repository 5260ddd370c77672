"""The options of commands that clear away what is old."""

from datetime import datetime, timedelta

from django.core.management.base import CommandParser
from django.utils import timezone


def add_horizon(parser: CommandParser, *, days: int, of_what: str) -> None:
    """--older-than-days and --dry-run."""
    parser.add_argument(
        "--older-than-days", type=_days, default=days, metavar="DAYS", help=f"{of_what} (default: {days})"
    )
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be removed")


def horizon(older_than_days: int) -> datetime:
    """So many days ago."""
    return timezone.now() - timedelta(days=older_than_days)


def removed(dry_run: bool) -> str:
    """How what was counted is told."""
    return "would be removed" if dry_run else "removed"


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= 36_500:
        raise ValueError(text)
    return days
