"""The API's description: as OpenAPI for programs, and as a page on which it can be tried."""

from functools import cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView

# Swagger UI draws its icons as data: images; all else comes from our own files, as on every page.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)


class KeptGenerator(SchemaGenerator):
    """Describes the API once a process: that takes a second, and is the same for everybody."""

    def get_schema(self, request: Any = None, public: bool = False) -> dict[str, Any]:
        return _description()


@cache
def _description() -> dict[str, Any]:
    description: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return description


@extend_schema(exclude=True)
class Schema(SpectacularAPIView):
    """Every address of the API as OpenAPI 3.1."""

    scope = "read"
    generator_class = KeptGenerator


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Swagger UI over the schema, to read it and to try it as whoever is signed in."""
    response = render(request, "api/docs.html")
    response.headers["Content-Security-Policy"] = POLICY
    return response
