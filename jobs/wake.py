"""Tells `conduct` on this machine that something is due. A lost wake-up costs one tick."""

import socket

from django.conf import settings
from django.db import transaction


def wake_conduct() -> None:
    """Send an empty datagram to `conduct`'s socket; never blocks and never fails the caller."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b"", str(settings.CONDUCT_SOCKET))
    except OSError:
        return  # nobody listens, or it has plenty to read: the next tick finds what is due


def wake_on_commit() -> None:
    """Wake `conduct` once this transaction is committed."""
    transaction.on_commit(wake_conduct)
