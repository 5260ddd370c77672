"""Lists cut by what stands in their rows: a page goes on after the last row of the one before it.

Rows that come or go meanwhile shift nothing, and the last page costs as much as the first. Empty values (NULL) stand
last, on every database. The key is the last column, so that no two rows are equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, Model, Q, QuerySet
from django.db.models.expressions import OrderBy


@dataclass(frozen=True)
class Column:
    """One column of an order."""

    name: str
    descending: bool
    nullable: bool

    def order(self, *, back: bool) -> OrderBy:
        """How the database sorts by it; `back` turns everything round, so that empty values come first."""
        last = {("nulls_first" if back else "nulls_last"): True} if self.nullable else {}
        return F(self.name).desc(**last) if self.descending != back else F(self.name).asc(**last)

    def beyond(self, value: Any, *, back: bool) -> Q | None:
        """Where the column stands after `value` (before it, with `back`); None: nowhere."""
        if value is None:
            return Q(**{f"{self.name}__isnull": False}) if back else None
        after = Q(**{f"{self.name}__{'lt' if self.descending != back else 'gt'}": value})
        return after | Q(**{f"{self.name}__isnull": True}) if self.nullable and not back else after

    def same(self, value: Any) -> Q:
        return Q(**{f"{self.name}__isnull": True}) if value is None else Q(**{self.name: value})

    def not_short_of(self, value: Any, *, back: bool) -> Q:
        """Where it is the same or beyond: one condition, which an index serves."""
        return Q(**{f"{self.name}__{'lte' if self.descending != back else 'gte'}": value})


def columns_of(queryset: QuerySet[Any]) -> list[Column]:
    """The columns that the rows are ordered by, and their key."""
    model = queryset.model
    columns = [_column(model, str(term)) for term in queryset.query.order_by]
    key = model._meta.pk.attname
    if key not in [column.name for column in columns]:
        columns.append(Column(key, columns[-1].descending if columns else False, nullable=False))
    return columns


def _column(model: type[Model], term: str) -> Column:
    name = term.removeprefix("-")
    field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
    return Column(field.attname, term.startswith("-"), field.null)


def beyond(columns: Sequence[Column], values: Sequence[Any], *, back: bool) -> Q:
    """The condition for rows after (before, with `back`) the one that has `values` in `columns`."""
    found, equal = Q(pk__in=[]), Q()
    for column, value in zip(columns, values, strict=True):
        there = column.beyond(value, back=back)
        if there is not None:
            found |= equal & there
        equal &= column.same(value)
    first = columns[0]
    return found if first.nullable else found & first.not_short_of(values[0], back=back)


def sorted_by(queryset: QuerySet[Any], columns: Sequence[Column], *, back: bool) -> QuerySet[Any]:
    return queryset.order_by(*(column.order(back=back) for column in columns))
