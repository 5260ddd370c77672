"""Tells `conduct` that something is due: on this machine by a datagram, elsewhere through PostgreSQL.

A lost wake-up costs one tick.
"""

import socket
from collections.abc import Callable

from django.conf import settings
from django.db import connection, transaction

CHANNEL = "conductor_due"


def wake_on_commit() -> None:
    """Wake every `conduct` on this database once the transaction is committed; one that is rolled back wakes none."""
    transaction.on_commit(wake_conduct)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, own_mark()])


_here: list[Callable[[], None]] = []  # set where this process is `conduct` itself


def hear_here(heard: Callable[[], None] | None) -> None:
    """Have wake-ups of this very process call `heard` instead of going through the socket; None undoes it."""
    _here[:] = [heard] if heard else []


def wake_conduct() -> None:
    """Send an empty datagram to `conduct`'s socket; never blocks and never fails the caller."""
    if _here:
        return _here[0]()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b"", str(settings.CONDUCT_SOCKET))
    except OSError:
        return  # nobody listens, or it has plenty to read: the next tick finds what is due


def own_mark() -> str:
    """By whom a notification is sent: a `conduct` that hears its own installation has had the datagram already."""
    return str(settings.INSTALLATION)
