"""Statements whose SQL is made once, for what is asked and written at every step of every phase.

Django makes a statement's SQL anew each time, which takes several times as long as the database takes to answer.
Queries are declared with the ORM all the same, and give the same rows.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.query import FlatValuesListIterable, ModelIterable, get_related_populators
from django.db.models.sql.compiler import SQLCompiler

Row = TypeVar("Row")


_TEXT = (models.CharField, models.TextField)


class Slot(models.Value):
    """The place of a value that each call gives."""

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)


@dataclass(frozen=True)
class _Written:
    """A query's SQL for one kind of database, with slots among the parameters, and how its rows are read."""

    sql: str
    params: tuple[Any, ...]
    converters: list[tuple[int, Sequence[Callable[..., Any]], Any]]
    row: Callable[[list[Any]], Any]


class Prepared(Generic[Row]):
    """A query that is written once. `make` gives its queryset, from slots instead of values (numbers, UUIDs, text).

    The queryset may depend on nothing but its slots and the kind of the database: on no clock, no setting, no row.
    """

    def __init__(self, make: Callable[..., models.QuerySet[Any, Row]]) -> None:
        self._make = make
        self._names = list(inspect.signature(make).parameters)
        self._written: dict[str, _Written] = {}

    def all(self, *values: Any) -> list[Row]:
        """The rows, with these values in the slots, in the order of `make`'s parameters. One query."""
        connection = connections[DEFAULT_DB_ALIAS]
        written = self._written.get(connection.vendor) or self._write(connection)
        given = dict(zip(self._names, values, strict=True))
        params = [_kept(given[each.value], connection) if isinstance(each, Slot) else each for each in written.params]
        with connection.cursor() as cursor:
            cursor.execute(written.sql, params)
            rows = list(map(list, cursor.fetchall()))
        for position, functions, expression in written.converters:
            for row in rows:
                for convert in functions:
                    row[position] = convert(row[position], expression, connection)
        return [written.row(row) for row in rows]

    def first(self, *values: Any) -> Row | None:
        """The first row, None where there is none."""
        return next(iter(self.all(*values)), None)

    def _write(self, connection: BaseDatabaseWrapper) -> _Written:
        queryset = self._make(*(Slot(name) for name in self._names))
        compiler = queryset.query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        converters = compiler.get_converters([each[0] for each in compiler.select])
        columns = [(position, *functions) for position, functions in converters.items()]
        written = _Written(sql, tuple(params), columns, _reader(queryset, compiler))
        return self._written.setdefault(connection.vendor, written)


def _reader(queryset: models.QuerySet[Any, Any], compiler: SQLCompiler) -> Callable[[list[Any]], Any]:
    """What makes of a row of values what the queryset gives: an instance with its related ones, a tuple or a value."""
    if issubclass(queryset._iterable_class, FlatValuesListIterable):
        return lambda row: row[0]
    if not issubclass(queryset._iterable_class, ModelIterable):
        return tuple
    info = compiler.klass_info
    first, last = info["select_fields"][0], info["select_fields"][-1] + 1
    names = [each[0].target.attname for each in compiler.select[first:last]]
    related = get_related_populators(info, compiler.select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg] # stubs of 6.0

    def instance(row: list[Any]) -> models.Model:
        made = queryset.model.from_db(DEFAULT_DB_ALIAS, names, row[first:last])
        for populator in related:
            populator.populate(row, made)
        return made

    return instance


def _kept(value: Any, connection: BaseDatabaseWrapper) -> Any:
    """A value as the database is given it."""
    return value.hex if isinstance(value, UUID) and not connection.features.has_native_uuid_field else value


def insert(row: models.Model) -> None:
    """Insert a new row, as its save() would, but without signals and hooks; its key is set."""
    connection = connections[DEFAULT_DB_ALIAS]
    params = [_saved(field, field.pre_save(row, True), connection) for field in _without_key(type(row))]
    with connection.cursor() as cursor:
        cursor.execute(_insertion(type(row), connection.vendor), params)
        row.pk = cursor.fetchone()[0]
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS


def update(model: type[models.Model], *, where: dict[str, Any], changes: dict[str, Any]) -> int:
    """Set plain values in the rows in which every field of `where` holds its value; how many there were."""
    if any(isinstance(value, models.expressions.Combinable) for value in changes.values()) or None in where.values():
        return model._base_manager.filter(**where).update(**changes)
    connection = connections[DEFAULT_DB_ALIAS]
    settings, new = _equations(model, changes, connection)
    conditions, seen = _equations(model, where, connection)
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET {', '.join(settings)} WHERE {' AND '.join(conditions)}", [*new, *seen])  # noqa: S608 - names of our own tables and columns
        return cursor.rowcount


def _equations(
    model: type[models.Model], values: dict[str, Any], connection: BaseDatabaseWrapper
) -> tuple[list[str], list[Any]]:
    """(column = %s for each field, what the database is given for it)."""
    fields = [_field(model, name) for name in values]
    params = [_saved(field, value, connection) for field, value in zip(fields, values.values(), strict=True)]
    return [f"{connection.ops.quote_name(str(field.column))} = %s" for field in fields], params


def _saved(field: "models.Field[Any, Any]", value: Any, connection: BaseDatabaseWrapper) -> Any:
    """What the database is given for a field's value; what is given as it is, is told without asking the field."""
    if value is None or (type(value) is str and isinstance(field, _TEXT)):
        return value
    if isinstance(value, models.Model):
        return value.prepare_database_save(field)
    return field.get_db_prep_save(value, connection)


@cache
def _field(model: type[models.Model], name: str) -> "models.Field[Any, Any]":
    found = model._meta.pk if name == "pk" else model._meta.get_field(name)
    if not isinstance(found, models.Field):
        raise TypeError(f"{model.__name__}.{name} is no column")
    return found


@cache
def _without_key(model: type[models.Model]) -> "list[models.Field[Any, Any]]":
    return [field for field in model._meta.local_concrete_fields if not field.primary_key]


@cache
def _insertion(model: type[models.Model], vendor: str) -> str:
    quote = connections[DEFAULT_DB_ALIAS].ops.quote_name
    columns = [quote(str(field.column)) for field in _without_key(model)]
    places = ", ".join(["%s"] * len(columns))
    key = quote(str(_field(model, "pk").column))
    return f"INSERT INTO {quote(model._meta.db_table)} ({', '.join(columns)}) VALUES ({places}) RETURNING {key}"  # noqa: S608 - names of our own
