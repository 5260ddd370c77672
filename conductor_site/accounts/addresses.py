"""Addresses of pages for what is printed where no request tells under which name the site is reached."""

from urllib.parse import urlsplit

from django.conf import settings
from django.urls import get_script_prefix, reverse

from record.errors import BadInput

HERE = "http://127.0.0.1:8000"


def site_address(page: str, *args: str, base: str = "") -> str:
    """The whole address of a page. `base` is the site's; else CONDUCTOR_BASE_URL, else this machine's."""
    base = (base or settings.BASE_URL or f"{HERE}{settings.PREFIX}").rstrip("/")
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.netloc or "*" in parts.netloc:
        raise BadInput(f"{base!r} is no address of a site: give one like https://conductor.example.org.")
    below = reverse(page, args=args).removeprefix(get_script_prefix().rstrip("/"))
    return f"{base}/{below.lstrip('/')}"
