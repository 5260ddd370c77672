"""Measure: a table of figures against their limits, and last a line of JSON. `python -m bench [--only WORD] [--rest S]`

Everything is real (gunicorn, `conduct`, the task cluster, processes, durable commits), on a data folder of its own in
`var`, which is removed at the end. The database is SQLite there, or the empty one that DATABASE_URL names. Without such
a name, what reads much is measured once more on a PostgreSQL of its own, where one is installed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.figures import Figure

ROOT = Path(__file__).resolve().parent.parent
ON_POSTGRESQL = ["sweep", "pages"]  # no commits: that server does not wait for disks
PARTS = ["start", "poll", "idle", "chain", "jobs", "answer", "waiting", "sweep", "pages"]


def main() -> None:
    options = _options()
    folder = _own_folder()
    on_postgresql = [] if "DATABASE_URL" in os.environ else [part for part in ON_POSTGRESQL if part in options.only]
    try:
        figures = list(_measure(options.only, rest_s=options.rest))
    except BaseException:
        print(f"What was measured on is kept, with its logs: {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder)
    from bench.figures import as_json

    print(as_json([*figures, *_measure_on_postgresql(on_postgresql)]))


def _measure_on_postgresql(parts: list[str]) -> list["Figure"]:
    """The figures of these parts on a PostgreSQL that is started for them; none where none is installed."""
    from bench.figures import as_line, from_json
    from conductor_site.tests.postgresql import binaries

    if not parts:
        return []
    try:
        binaries()
    except FileNotFoundError as error:
        print(f"Not measured on PostgreSQL: {error}", file=sys.stderr)
        return []
    command = [sys.executable, "-m", "conductor_site.tests.postgresql", sys.executable, "-m", "bench", "--only", *parts]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own
    figures = [replace(each, name=f"{each.name} (PostgreSQL)") for each in from_json(done.stdout.splitlines()[-1])]
    for figure in figures:
        print(as_line(figure), flush=True)
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure these parts")
    parser.add_argument("--rest", type=float, default=60, metavar="S", help="seconds to watch the site at rest (60)")
    return parser.parse_args()


def _own_folder() -> Path:
    """A new data folder, on the disk on which the project lies, and the environment that names it."""
    (ROOT / "var").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=ROOT / "var"))
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
        "CONDUCTOR_DATA": str(folder),
        "CONDUCTOR_PIPELINES": str(folder / "pipelines"),
        "CONDUCTOR_LOG_LEVEL": "WARNING",
    }
    os.environ.pop("CONDUCTOR_SQLITE", None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return folder


def _measure(parts: list[str], *, rest_s: float) -> Iterator["Figure"]:
    """The figures of these parts, each printed when it is there."""
    import django

    django.setup()
    from bench.figures import HEAD, as_line
    from bench.parts import figures_of

    print(f"{HEAD}\nload of the machine at the beginning: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    for figure in figures_of(parts, rest_s=rest_s):
        print(as_line(figure), flush=True)
        yield figure


if __name__ == "__main__":
    main()
