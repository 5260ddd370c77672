"""Who may be told how the installation fares in detail: whoever knows the token, or comes from a let-in address."""

import hmac
import ipaddress

from django.conf import settings
from django.http import HttpRequest

from conductor_site.address import client_address


def may_scrape(request: HttpRequest) -> bool:
    """Whether the request carries the token (`Authorization: Bearer ...`) or comes from an address that is let in."""
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if settings.METRICS_TOKEN and hmac.compare_digest(given.encode(), settings.METRICS_TOKEN.encode()):
        return True
    address = client_address(request)
    return address is not None and any(address in ipaddress.ip_network(each) for each in settings.METRICS_FROM)
