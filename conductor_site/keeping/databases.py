"""The database as one file, taken while others write, and put back: SQLite's own backup, or pg_dump and pg_restore."""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from django.conf import settings
from django.db import connection

from conductor_site.keeping.manifest import sha256_of
from record.errors import BadInput, ConductorError

FILES = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}  # by the database's vendor


def dump_database(folder: Path) -> Path:
    """Write one consistent state of the database into `folder`; nobody has to wait. The file."""
    path = folder / _file_name()
    if connection.vendor == "sqlite":
        _copy_sqlite(Path(connection.settings_dict["NAME"]), path)
    else:
        _run_tool("pg_dump", ["--format=custom", "--no-owner", "--no-privileges", f"--file={path}"])
    path.chmod(0o600)
    _sync(path)
    return path


def require_empty_database() -> None:
    """BadInput, in words, unless there is nothing where the database would be restored to."""
    if connection.vendor == "sqlite":
        path = str(connection.settings_dict["NAME"])
        there = [each for each in (path, f"{path}-wal", f"{path}-shm") if os.path.exists(each)]
        if there:
            raise BadInput(
                f"A database is there already: {', '.join(there)}. Move these files away first, all of them."
            )
    elif tables := connection.introspection.table_names():
        raise BadInput(f"The database is not empty: it has {len(tables)} tables. Make a new one, and name it instead.")


def load_database(path: Path, sha256: str) -> None:
    """Put back what `dump_database` has written, wholly or not at all; BadInput where the file is not what it was."""
    if sha256_of(path) != sha256:
        raise BadInput(f"{path} is not what it was when the backup was made: its SHA-256 is another.")
    if connection.vendor == "sqlite":
        name = Path(connection.settings_dict["NAME"])
        name.parent.mkdir(parents=True, exist_ok=True)
        scratch = name.with_name(f"{name.name}.restoring.{os.getpid()}")
        try:
            shutil.copyfile(path, scratch)
            scratch.chmod(0o600)
            _sync(scratch)
            require_empty_database()  # anew: a web server that runs makes a database as soon as it is asked something
            os.link(scratch, name)
        except FileExistsError:
            raise BadInput(f"A database is there already: {name}. It was made just now: by a web server?") from None
        finally:
            scratch.unlink(missing_ok=True)
    else:
        once = ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges"]
        _run_tool("pg_restore", [*once, str(path)])


def _file_name() -> str:
    if connection.vendor not in FILES:
        raise BadInput(f"There is no way to back up {connection.vendor}: use {' or '.join(FILES)}.")
    return FILES[connection.vendor]


def _copy_sqlite(source: Path, path: Path) -> None:
    """All pages in one step are one state; in write-ahead mode writers go on meanwhile."""
    with (
        closing(sqlite3.connect(source, timeout=settings.SQLITE_TIMEOUT_S)) as live,
        closing(sqlite3.connect(path)) as copy,
    ):
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        found = [row[0] for row in copy.execute("PRAGMA integrity_check")]
    if found != ["ok"]:
        raise ConductorError(f"The database {source} is damaged: {'; '.join(found[:3])}. Restore it from a backup.")


def _run_tool(program: str, arguments: list[str]) -> None:
    """Run one of PostgreSQL's own programs on our database; the password goes through its environment."""
    from django.db.backends.postgresql.client import DatabaseClient

    found = shutil.which(program)
    if found is None:
        raise BadInput(f"{program} is missing: install PostgreSQL's client programs, of the server's version or newer.")
    given = connection.settings_dict
    psql, environment = DatabaseClient.settings_to_cmd_args_env(given, [])
    place = psql[1:-1] if given["NAME"] else psql[1:]  # user, host, port; the database's name would be the last
    name = given["NAME"] or f"service={given['OPTIONS']['service']}"
    done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
        [found, *place, f"--dbname={name}", *arguments],
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise ConductorError(f"{program} failed: {(done.stderr.strip() or f'exit code {done.returncode}')[-1000:]}")


def _sync(path: Path) -> None:
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())
