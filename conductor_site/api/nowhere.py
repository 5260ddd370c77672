"""Addresses of the API that do not exist."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.views import APIView


@extend_schema(exclude=True)
class Nowhere(APIView):
    """Refuses in the API's own shape, since a program can do nothing with a page."""

    scope = "read"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound(f"The API has no address {request.path}. Addresses end with '/'; /api/schema/ lists them all.")
