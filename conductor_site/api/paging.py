"""How long lists are cut into pages."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from rest_framework.pagination import PageNumberPagination
from rest_framework.request import Request

from record.pages import keys_of


class Pages(PageNumberPagination):
    """Numbered pages of 50 rows; `page_size` asks for another length, 200 at most."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: Any = None
    ) -> list[Any] | None:
        """The page's rows: first their keys, then what is shown of them, which is joined to those rows alone."""
        if not isinstance(queryset, QuerySet):
            return super().paginate_queryset(queryset, request, view)
        keys = super().paginate_queryset(keys_of(queryset), request, view)
        return None if keys is None else list(queryset.filter(pk__in=keys))
