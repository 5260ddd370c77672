"""Whether a tick may be passed over, because nothing can have become due: most of what `conduct` costs when idle."""

from django.db import connection

from jobs import processes

LONGEST_S = 5.0  # clocks (deadlines, leases) are looked at so often even where nothing happens


class Quiet:
    """Knows whether others wrote to the database; where that can't be known, no tick is passed over."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._looked_s = float("-inf")
        self._restless = True

    def lasts(self) -> bool:
        """Whether nobody wrote since the last look, nothing was going on then, and the clocks were looked at lately."""
        version = data_version()
        unchanged = version is not None and version == self._version
        self._version = version
        return unchanged and not self._restless and processes.now_s() - self._looked_s < LONGEST_S

    def looked(self, *, restless: bool) -> None:
        """Everything has been looked at; `restless` says that something goes on that needs a look at each tick."""
        self._restless = restless
        self._looked_s = processes.now_s()

    def disturb(self) -> None:
        """Have the next tick look at everything."""
        self._restless = True


def data_version() -> int | None:
    """A number that is another one whenever something was written; None for databases that have no such thing.

    SQLite's counts what other connections have committed (https://www.sqlite.org/pragma.html#pragma_data_version).
    PostgreSQL's is the end of its write-ahead log, into which every commit goes just before others see it; one that is
    read in between costs `LONGEST_S`, unless its writer also wakes us.
    """
    query = _VERSION.get(connection.vendor)
    if query is None:
        return None
    with connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])


_VERSION = {
    "sqlite": "PRAGMA data_version",
    "postgresql": "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
}
