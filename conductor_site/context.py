"""What every page's frame needs."""

from typing import Any

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from gates.inbox import waiting_for


def navigation(request: HttpRequest) -> dict[str, Any]:
    """The sections, which of them this page is in, and (only if the page asks) how much waits for this person."""
    match = getattr(request, "resolver_match", None)
    name = f"{match.app_name}:{match.url_name}" if match else ""
    return {
        "section": SECTION_OF.get(name, SECTION_OF.get(name.split(":")[0], "")),
        "waiting_count": SimpleLazyObject(lambda: _waiting_count(request)),
    }


SECTION_OF = {
    ":home": "home",
    "runs": "runs",
    "gates": "runs",
    "jobs:log": "runs",
    "jobs": "targets",
    "jobs:agents": "agents",
    "jobs:agent": "agents",
    "jobs:ask": "agents",
    "record": "decisions",
    "account": "account",
    "labs": "account",
    "notices": "notices",
}


def _waiting_count(request: HttpRequest) -> int:
    return len(waiting_for(request.user))
