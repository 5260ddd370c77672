"""How long lists are cut into pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core import signing
from django.db.models import Model, QuerySet
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from conductor_site.api.keyset import Column, beyond, columns_of, sorted_by

_SALT = "conductor.api.cursor"


@dataclass(frozen=True)
class Cursor:
    """Where a page begins: after the row with these values, or (`back`) before it."""

    order: list[str]
    values: list[Any]
    back: bool

    def write(self) -> str:
        """The text for an address; signed, so that only what we have made comes back as a condition."""
        return signing.dumps([self.order, [_plain(value) for value in self.values], self.back], salt=_SALT)

    @classmethod
    def read(cls, text: str, columns: Sequence[Column], model: type[Model]) -> "Cursor":
        """The cursor; ValidationError for what was not made by us, or for another order."""
        try:
            order, values, back = signing.loads(text, salt=_SALT)
        except (signing.BadSignature, ValueError) as error:
            raise _unusable("is none that a page of this list gave you") from error
        if order != _order(columns):
            raise _unusable("belongs to another order of this list")
        fields: list[Any] = [model._meta.get_field(column.name) for column in columns]
        return cls(order, [field.to_python(value) for field, value in zip(fields, values, strict=True)], back)


class Pages(BasePagination):
    """Pages of 50 rows, each with the addresses of its neighbours; `page_size` asks for another length, 200 at most."""

    page_size = 50
    max_page_size = 200

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: Any = None
    ) -> list[Any] | None:
        """The page's rows: first their keys, then what is shown of them, which is joined to those rows alone."""
        if not isinstance(queryset, QuerySet):
            raise TypeError("only rows of the database are cut into pages")
        self._address = request.build_absolute_uri()
        columns = columns_of(queryset)
        text = request.query_params.get("cursor")
        cursor = Cursor.read(text, columns, queryset.model) if text is not None else None
        found = _places(queryset, columns, cursor, _size(request, self.page_size, self.max_page_size))
        self._next, self._previous = found.next, found.previous
        rows = {row.pk: row for row in queryset.filter(pk__in=found.keys)}
        return [rows[key] for key in found.keys if key in rows]

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"next": self._link(self._next), "previous": self._link(self._previous), "results": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {
                "next": link | {"description": "address of the page after this one"},
                "previous": link | {"description": "address of the page before this one"},
                "results": schema,
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        size = {"type": "integer", "minimum": 1, "maximum": self.max_page_size, "default": self.page_size}
        return [
            _parameter("cursor", "as it stands in `next` or `previous` of a page", {"type": "string"}),
            _parameter("page_size", "how many rows; more than 200 are not given at once", size),
        ]

    def _link(self, cursor: Cursor | None) -> str | None:
        return None if cursor is None else replace_query_param(self._address, "cursor", cursor.write())


@dataclass(frozen=True)
class _Places:
    keys: list[Any]
    next: Cursor | None
    previous: Cursor | None


def _places(queryset: QuerySet[Any], columns: list[Column], cursor: Cursor | None, size: int) -> _Places:
    """The keys of a page, and where its neighbours begin."""
    back = cursor is not None and cursor.back
    wanted = queryset if cursor is None else queryset.filter(beyond(columns, cursor.values, back=back))
    bare = sorted_by(wanted.select_related(None).prefetch_related(None).defer(None), columns, back=back)
    found = list(bare.values_list(*(column.name for column in columns))[: size + 1])
    more, found = len(found) > size, found[:size]
    if back:
        found.reverse()
    before, after = (more, True) if back else (cursor is not None, more)
    order = _order(columns)
    place = [column.name for column in columns].index(queryset.model._meta.pk.attname)
    return _Places(
        keys=[row[place] for row in found],
        next=Cursor(order, list(found[-1]), back=False) if found and after else None,
        previous=Cursor(order, list(found[0]), back=True) if found and before else None,
    )


def _size(request: Request, usual: int, largest: int) -> int:
    text = request.query_params.get("page_size")
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise ValidationError({"page_size": ["Give a whole number above 0."]})
    return min(int(text[:9]), largest)


def _order(columns: Sequence[Column]) -> list[str]:
    return [f"{'-' if column.descending else ''}{column.name}" for column in columns]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


def _unusable(why: str) -> ValidationError:
    return ValidationError({"cursor": [f"This cursor {why}. Begin again without it."]})


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}
