"""A real PostgreSQL for tests: Debian's binaries in a scratch folder, on loopback, as a user who is not root.

`python -m conductor_site.tests.postgresql COMMAND ...` runs a command with DATABASE_URL set to such a server and stops
the server after it. Where there is no PostgreSQL it says so and runs nothing; with CI=true that is a failure.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from record.tests.servers.ports import free_port

USER = "postgres"  # whom Debian's package makes; initdb and postgres refuse to run as root
DATABASE = "conductor"
START_S = 120
# Nobody waits for disks: what a power cut would lose is no loss here. What a killed server has committed is kept.
CONFIGURATION = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{folder}'
fsync = off
full_page_writes = off
max_connections = 150
shared_buffers = 64MB
log_lock_waits = on
"""


class Server:
    """One server, with the superuser `postgres` and no passwords; started and stopped as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self._make()

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it, unless it runs."""
        if (self.data / "postmaster.pid").exists():
            return
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-t", str(START_S), "start")

    def stop(self, mode: str = "fast") -> None:
        """End it: `fast` tells its clients, `immediate` is a crash. One that doesn't run is left as it is."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "-t", str(START_S), "stop")

    def create(self, database: str = DATABASE, template: str = "template0") -> None:
        self.sql(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')

    def drop(self, database: str) -> None:
        self.sql(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')

    def sql(self, statement: str) -> None:
        """Run one statement in the database `postgres`."""
        administer(self.url("postgres"), statement)

    def _make(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        with (self.data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION.format(port=self.port, folder=self.folder))

    def _run(self, program: str, *arguments: str) -> None:
        as_user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(binaries() / program), *arguments]
        done = subprocess.run(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed ({done.returncode}); see {self.folder}/log")


def binaries() -> Path:
    """The folder of initdb and pg_ctl, of the newest version there is; FileNotFoundError where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if elsewhere := shutil.which("initdb"):
        return Path(elsewhere).resolve().parent
    raise FileNotFoundError("PostgreSQL is missing. On Debian, as root: apt-get install postgresql")


def administer(url: str, statement: str) -> None:
    """Run one statement outside any transaction."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


@contextmanager
def running_server() -> Iterator[Server]:
    """A server that runs, and is gone afterwards with all it kept. FileNotFoundError where PostgreSQL is missing."""
    binaries()
    folder = Path(tempfile.mkdtemp(prefix="conductor-pg-"))  # short: the path of a socket has 107 characters at most
    try:
        server = Server(folder)
        try:
            server.start()
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(command: list[str]) -> int:
    """Run `command` beside a server, as the module's text says; its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with running_server() as server:
            server.create()
            with suppress(KeyboardInterrupt):
                return subprocess.run(command, env=os.environ | {"DATABASE_URL": server.url()}, check=False).returncode
            return 130
    except FileNotFoundError as error:
        print(f"Not run on PostgreSQL: {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
