"""Which host this is: local targets belong to one, by this name."""

import socket

from django.conf import settings


def this_host() -> str:
    """The name under which local targets belong to this machine (CONDUCTOR_HOST_NAME, else the host name)."""
    return settings.HOST_NAME or socket.gethostname()
