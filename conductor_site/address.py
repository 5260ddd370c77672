"""Whence a request came."""

import ipaddress

from django.conf import settings
from django.http import HttpRequest

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def client_address(request: HttpRequest) -> Address | None:
    """The address; behind a proxy what that added last to X-Forwarded-For, since the rest anyone can write.

    None where it can't be told: by a Unix socket, say. An IPv4 address in IPv6's clothes is answered as what it is.
    """
    text = request.META.get("REMOTE_ADDR", "")
    if settings.SECURE_PROXY_SSL_HEADER:
        text = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", 1)[-1].strip() or text
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
