"""What the parts share: a folder, templates of databases, the PostgreSQL server, the seed and the size."""

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from conductor_site.tests.postgresql import Server, administer
from conductor_site.tests.stage import make_template
from conductor_site.tests.stores import PostgresqlStore, SqliteStore, Store
from faults.arena import Arena
from faults.limits import Limits

T = TypeVar("T")
LEAST = 4


class Ground:
    """`scale` multiplies how often each thing is tried (1: as `make test-faults` does)."""

    def __init__(self, folder: Path, limits: Limits, *, seed: int, scale: float = 1.0) -> None:
        self.folder = folder
        self.limits = limits
        self.seed = seed
        self.scale = scale
        self._templates: dict[str, Store] = {}
        self._lock = threading.Lock()

    def times(self, count: int) -> int:
        """How often to do what is done `count` times in a whole run; at least once."""
        return max(1, round(count * self.scale))

    def choose(self, what: list[T], *, times: int) -> list[T]:
        """All of it so often in a whole run; in a smaller one fewer, at random."""
        wanted = max(LEAST, round(len(what) * times * self.scale))
        rounds, rest = divmod(wanted, len(what))
        return what * rounds + random.Random(self.seed).sample(what, rest)  # noqa: S311 - the same for the same seed

    @contextmanager
    def arena(
        self, name: str, where: str, *, server: Server | None = None, folder: Path | None = None
    ) -> Iterator[Arena]:
        """An arena on SQLite, or on that PostgreSQL; ended afterwards."""
        arena = Arena(folder or self.folder / name, self._template(server), self.limits, where=where, seed=self.seed)
        try:
            yield arena
        finally:
            arena.close()

    def _template(self, server: Server | None) -> Store:
        with self._lock:
            key = server.url() if server else "sqlite"
            if key not in self._templates:
                folder = self.folder / f"template-{len(self._templates)}"
                folder.mkdir(parents=True)
                self._templates[key] = make_template(folder, _empty(folder, server))
            return self._templates[key]


def _empty(folder: Path, server: Server | None) -> Store:
    if server is None:
        return SqliteStore(folder / "conductor.sqlite3")
    store = PostgresqlStore(server.url("postgres"), f"stages_{uuid4().hex}")
    administer(store.server, f'CREATE DATABASE "{store.name}" TEMPLATE template0')
    return store


def is_root() -> bool:
    """Whether file systems can be mounted and networks be taken away."""
    return os.geteuid() == 0
