"""What the pages of every app share: pagination, and parts of a page that keep themselves up to date."""

import hashlib
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.safestring import mark_safe

from record.errors import NotAllowed
from record.models import Door
from record.services import Author

Dress = Callable[[QuerySet[Any]], QuerySet[Any]]
STOP_POLLING = 286  # htmx: swap, and ask no more


def page_author(request: HttpRequest) -> Author:
    """The person at the page, as the author of what they do there."""
    if not isinstance(request.user, User):
        raise NotAllowed("Sign in first: what is done is recorded with the name of who did it.")
    return Author.person(request.user, Door.WEB)


def page_of(request: HttpRequest, rows: QuerySet[Any], *, size: int = 25, dress: Dress | None = None) -> Page[Any]:
    """The page that ?page= asks for; the nearest one there is where it asks for nonsense.

    `dress` adds to the rows what the page shows of them (joins, counts), once they are known: added before the cut, a
    database works it out for all rows there are.
    """
    page = Paginator(rows if dress is None else keys_of(rows), size).get_page(request.GET.get("page"))
    if dress is not None:
        page.object_list = dress(rows.filter(pk__in=list(page.object_list)))
    return page


def keys_of(rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """The keys of `rows`, in their order, without what is joined to them."""
    return rows.select_related(None).prefetch_related(None).defer(None).values_list("pk", flat=True)


def live_page(
    request: HttpRequest,
    *,
    page: str,
    part: str,
    context: dict[str, Any],
    final: bool = False,
    every_s: int = 3,
) -> HttpResponse:
    """A page with one part that asks for itself every `every_s` seconds until what it shows is final.

    `page` places the part where it says {{ live }}. A poll (an htmx request to the same address) gets the part alone:
    204 while it is what the asker already has (?seen= holds its digest), 286 once it is final. The part must hold no
    form: it is replaced under the reader's hands.
    """
    body = render_to_string(part, context, request)
    seen = hashlib.sha256(f"{final}{body}".encode()).hexdigest()[:16]
    polling = request.headers.get("HX-Request") == "true"
    if polling and request.GET.get("seen") == seen and not final:
        response = HttpResponse(status=204)
    else:
        shown = mark_safe(body)  # noqa: S308  (rendered by a template just above, escaped there)
        again = {"body": shown, "address": _with_seen(request, seen), "final": final, "every_s": every_s}
        live = mark_safe(render_to_string("_live.html", again))  # noqa: S308  (rendered by a template)
        if polling:
            response = HttpResponse(live, status=STOP_POLLING if final else 200)
        else:
            response = render(request, page, context | {"live": live})
    patch_vary_headers(response, ["HX-Request"])
    response.headers["Cache-Control"] = "no-store"
    return response


def _with_seen(request: HttpRequest, seen: str) -> str:
    """The address that was asked for, with the digest of what its answer shows."""
    query = request.GET.copy()
    query["seen"] = seen
    return f"{request.path}?{query.urlencode()}"
