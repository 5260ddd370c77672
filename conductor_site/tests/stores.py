"""The database of a stage, seen from outside: a copy of one that was migrated once, of either kind."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from conductor_site.tests.postgresql import administer


class Store(Protocol):
    """A database that a stage has for itself."""

    environment: dict[str, str]

    def connection(self) -> Any:
        """A context in which `execute(sql, parameters)` works, with `?` for each; rows are mappings. Commits."""

    def copy(self, folder: Path) -> "Store":
        """Another one with the same contents."""

    def drop(self) -> None:
        """Remove it, whoever is connected."""


class SqliteStore:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environment = {"CONDUCTOR_SQLITE": str(path)}

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=10)) as connection, connection:
            connection.row_factory = sqlite3.Row
            yield connection

    def copy(self, folder: Path) -> "SqliteStore":
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in ("", "-wal"):
            if (source := self.path.with_name(self.path.name + suffix)).exists():
                shutil.copy(source, folder / source.name)
        return SqliteStore(folder / self.path.name)

    def drop(self) -> None:
        pass  # it goes with its folder


class PostgresqlStore:
    """A database of the server that DATABASE_URL names."""

    def __init__(self, server: str, name: str) -> None:
        self.server, self.name = server, name
        self.url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        self.environment = {"DATABASE_URL": self.url}

    @contextmanager
    def connection(self) -> Iterator["_Marked"]:
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.url, row_factory=dict_row) as connection:
            yield _Marked(connection)

    def copy(self, folder: Path) -> "PostgresqlStore":
        name = f"stage_{uuid4().hex}"
        administer(self.server, f'CREATE DATABASE "{name}" TEMPLATE "{self.name}"')
        return PostgresqlStore(self.server, name)

    def drop(self) -> None:
        administer(self.server, f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')


class _Marked:
    """A connection that takes `?` for a parameter, as SQLite's does."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: list[Any] | None = None) -> Any:
        if parameters is None:
            return self._connection.execute(statement)
        return self._connection.execute(statement.replace("?", "%s"), parameters)


def new_store(folder: Path) -> Store:
    """An empty database: on PostgreSQL where DATABASE_URL names one, else a file in `folder`."""
    server = os.environ.get("DATABASE_URL")
    if not server:
        return SqliteStore(folder / "conductor.sqlite3")
    store = PostgresqlStore(server, f"stages_{uuid4().hex}")
    administer(server, f'CREATE DATABASE "{store.name}" TEMPLATE template0')
    return store
