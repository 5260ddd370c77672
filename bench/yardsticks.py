"""What the machine itself takes for the smallest things: limits are multiples of these, measured beside the figures."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from django.db import connection, transaction

ROUNDS = 40


@dataclass
class Yardsticks:
    """Milliseconds of each measurement so far. Measured before and after what is held against them."""

    spawns_ms: list[float] = field(default_factory=list)
    commits_ms: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Measure both another `ROUNDS` times; the database must be there and migrated."""
        self.spawns_ms += _times_ms(_spawn)
        _in_own_table(lambda: self.commits_ms.extend(_times_ms(_commit)))

    @property
    def spawn_ms(self) -> float:
        """Median of fork + exec of `sh -c true` to its end, by `subprocess`, as jobs are started."""
        return median(self.spawns_ms)

    @property
    def commit_ms(self) -> float:
        """Median of a transaction that inserts one row, on the database and with the durability that the site uses."""
        return median(self.commits_ms)


def _times_ms(act: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        act()
        times.append((time.perf_counter() - began) * 1000)
    return times


def _spawn() -> None:
    subprocess.run(["/bin/sh", "-c", "true"], check=True)  # noqa: S603 - nothing but these words


def _commit() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO bench_commits VALUES (1)")


def _in_own_table(act: Callable[[], None]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bench_commits (number integer)")
        try:
            act()
        finally:
            cursor.execute("DROP TABLE bench_commits")
