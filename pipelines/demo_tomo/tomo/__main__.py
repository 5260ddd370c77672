"""Command line: `python -m tomo PHASE`, with the conf's values in the environment."""

import argparse
import importlib
import os
import sys
from pathlib import Path

from tomo.errors import TomoError

PHASES = ("import", "align", "reconstruct", "template", "match", "picks", "extract", "average", "mapback")
MODULES = {"extract": "subtomo"}


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="tomo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for phase in PHASES:
        commands.add_parser(phase)
    for command in ("evaluate", "crossvalidate"):
        measured = commands.add_parser(command)
        measured.add_argument("--work", type=Path, required=True, help="folder of the run")
        measured.add_argument("--json", action="store_true", help="print one JSON object as the last line")
        if command == "crossvalidate":
            measured.add_argument("--series", required=True, help="name of the tilt series")
    return parser


def run_phase(phase: str) -> None:
    """Run one phase in WORK_DIR."""
    from tomo import conf

    work = Path(conf.text("WORK_DIR"))
    if not work.is_dir():
        raise TomoError(f"WORK_DIR {work} is not a folder.")
    if phase != "import":
        importlib.import_module(f"tomo.{MODULES.get(phase, phase)}").run(work)
    elif conf.text("SOURCE") == "mrc":
        importlib.import_module("tomo.importing").run(work)
    elif conf.text("SOURCE") == "simulate":
        importlib.import_module("tomo.simulate").run(
            work, Path(os.environ.get("SKILL_DIR") or Path(__file__).parents[1])
        )
    else:
        raise TomoError(f"SOURCE is {conf.text('SOURCE')!r}: give simulate or mrc.")


def main() -> int:
    """Run a command; a fault a person can mend is one sentence on stderr and exit code 1."""
    options = arguments().parse_args()
    try:
        if options.command == "evaluate":
            importlib.import_module("tomo.evaluate").run(options.work, options.json)
        elif options.command == "crossvalidate":
            importlib.import_module("tomo.crossvalidate").run(options.work, options.series, options.json)
        else:
            run_phase(options.command)
    except (TomoError, OSError) as error:
        print(f"tomo {options.command}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
