"""Measure: a table of figures against their limits, and last a line of JSON. `python -m bench [--only WORD] [--rest S]`

Everything is real (gunicorn, `conduct`, the task cluster, processes, durable commits), on a data folder of its own in
`var`, which is removed at the end. The database is SQLite there, or the empty one that DATABASE_URL names.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.figures import Figure

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["start", "poll", "idle", "chain", "jobs", "answer", "waiting", "sweep", "pages"]


def main() -> None:
    options = _options()
    folder = _own_folder()
    try:
        figures = list(_measure(options.only, rest_s=options.rest))
    except BaseException:
        print(f"What was measured on is kept, with its logs: {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder)
    from bench.figures import as_json

    print(as_json(figures))


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
