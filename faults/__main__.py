"""Try faults: a table of what was tried, and last a line of JSON.

`python -m faults [--only PART] [--seed N] [--scale X]`

Everything is real (`conduct`, gunicorn, jobs, SLURM, SSH, PostgreSQL), on loopback, in a folder of its own in `var`,
which is removed at the end unless something is wrong. Exit code 0: nothing was lost, done twice or told wrongly, the
record holds, and every part got to its end.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WITHIN_S = 39 * 60


def main() -> int:
    from faults.lanes import PARTS

    options = _options(list(PARTS))
    folder = _own_folder()
    print(
        f"seed {options.seed}; folder {folder}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True
    )
    from faults.ground import Ground
    from faults.lanes import run_lanes
    from faults.limits import Limits
    from faults.report import as_json, complaints, table

    limits = Limits(options.within)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: limits.interrupt())
    began = time.monotonic()
    parts = run_lanes(Ground(folder, limits, seed=options.seed, scale=options.scale), options.only)
    print(table(parts))
    for part in parts:
        if part.left_out:
            print(f"not tried: {part.name}: {part.left_out}")
    found = complaints(parts)
    for sentence in found:
        print(f"WRONG: {sentence}")
    if found:
        print(f"What it was tried on is kept, with its logs: {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(as_json(parts, seconds=time.monotonic() - began))
    return 1 if found or not any(part.trials for part in parts) else 0


def _options(parts: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=parts, default=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="of random moments"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="how often each thing is tried, 1 being a whole run")
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="S", help="give up after so many seconds")
    return parser.parse_args()


def _own_folder() -> Path:
    """A new folder, on the disk on which the project lies; without the shell's own settings of a site."""
    for name in ("DATABASE_URL", "DATABASE_URL_FILE", "CONDUCTOR_SQLITE", "CONDUCTOR_DATA", "PYTHONDONTWRITEBYTECODE"):
        os.environ.pop(name, None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "conductor_site.settings"
    (ROOT / "var").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="faults-", dir=ROOT / "var"))
    folder.chmod(0o755)  # noqa: S103 - jobs on a cluster run as another user
    return folder


if __name__ == "__main__":
    sys.exit(main())
