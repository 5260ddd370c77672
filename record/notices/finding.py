"""Channels by what people call them at the command line."""

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from record.models import Channel


def find_channel(called: str) -> Channel:
    """LAB/NAME, a NAME that only one lab has, or a user name; CommandError with those that there are."""
    channels = Channel.objects.select_related("lab", "owner")
    lab, slash, name = called.rpartition("/")
    found = list(channels.filter(lab__slug=lab, name=name) if slash else channels.filter(name=called, owner=None))
    if not found and not slash:
        found = list(channels.filter(owner__username=called))
    if len(found) == 1:
        return found[0]
    if found:
        raise CommandError(f"Several labs have a channel {called}: {', '.join(map(str, found))}. Write LAB/NAME.")
    if not slash and User.objects.filter(username=called).exists():
        raise CommandError(f"{called} has not said yet what they want to hear (the page “Notices”).")
    known = ", ".join(map(str, channels.filter(owner=None))) or "there is none yet"
    raise CommandError(f"There is no channel {called}: {known}. An administrator of the lab makes one on its pages.")
