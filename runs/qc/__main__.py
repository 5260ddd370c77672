"""Command line of the renderers. A subcommand's module, and numpy with it, is imported only when it is called."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from runs.qc.errors import BadInput
from runs.qc.index import Index

# name -> (module, function, what it shows). The module also has `add_arguments(parser)`.
RENDERERS = {
    "slices": (
        "runs.qc.slices",
        "render",
        "tomograms: central sections, a stack of slices, metrics, a suggested verdict",
    ),
    "picks": ("runs.qc.picks", "render", "picks drawn over their tomogram, and how they compare with the truth"),
    "histogram": (
        "runs.qc.histogram",
        "render",
        "score histogram with a suggested threshold, and precision and recall",
    ),
    "fsc": ("runs.qc.fsc", "render", "Fourier shell correlation of two half-maps, corrected for the mask"),
    "mask": ("runs.qc.mask", "render", "a mask's outline over the sections of its map"),
    "averages": ("runs.qc.averages", "render", "central sections and projections of averaged maps"),
}
BAD_INPUT = 2
SEVERAL, THEN = "several", "--then"  # several SUBCOMMAND ... --then SUBCOMMAND ... --out DIR


def main(argv: list[str] | None = None) -> int:
    """Run one renderer; 0 when something was rendered, 2 with a sentence on stderr when nothing could be."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] == SEVERAL:
        return _several(argv[1:])
    if not argv or argv[0] not in RENDERERS:
        _overview().parse_args(argv)
        return BAD_INPUT
    name, *rest = argv
    module_name, function_name, summary = RENDERERS[name]
    module = importlib.import_module(module_name)
    args = _parser(name, summary, module.add_arguments).parse_args(rest)
    try:
        return _render(name, getattr(module, function_name), args)
    except BadInput as error:
        print(f"{name}: {error}", file=sys.stderr)
    except OSError as error:
        print(f"{name}: {error.filename or args.out}: {error.strerror or error}", file=sys.stderr)
    except MemoryError:
        print(f"{name}: not enough memory for these inputs; give the job more, or bin the maps", file=sys.stderr)
    return BAD_INPUT


def _several(argv: list[str]) -> int:
    """Run renderers one after the other, each into a folder of its own below --out; the first failure ends it."""
    *words, option, out = argv if len(argv) > 2 else ["", "", ""]
    if option != "--out":
        print(f"{SEVERAL}: give --out DIR, last of all", file=sys.stderr)
        return BAD_INPUT
    for number, command in enumerate(_split(words), start=1):
        folder = f"{out}/{number:03d}_{command[0]}" if command else out
        if code := main([*command, *(["--out", folder] if command else [])]):
            return code
    return 0


def _split(words: list[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == THEN:
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def _render(name: str, function: Callable[[argparse.Namespace, Index], None], args: argparse.Namespace) -> int:
    args.out.mkdir(parents=True, exist_ok=True)
    index = Index(renderer=name, folder=args.out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what matters is said in the index, item by item
        function(args, index)
    index.write()
    for text in index.warnings:
        print(f"{name}: {text}", file=sys.stderr)
    if args.json:
        print(json.dumps(index.document()["figures"], allow_nan=False))
    return 0


def _overview() -> argparse.ArgumentParser:
    lines = [f"  {name:<10} {summary}" for name, (_, _, summary) in RENDERERS.items()]
    parser = argparse.ArgumentParser(
        prog="python -m runs.qc",
        usage="%(prog)s SUBCOMMAND ... --out DIR [--json]",
        description="Pictures and figures for the gates of a cryo-ET pipeline.\n\nsubcommands:\n" + "\n".join(lines),
        epilog="python -m runs.qc SUBCOMMAND --help shows the options of one.\n"
        f"python -m runs.qc {SEVERAL} SUBCOMMAND ... {THEN} SUBCOMMAND ... --out DIR runs several in one process, "
        "each into a folder of its own below DIR.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subcommand", choices=list(RENDERERS), metavar="SUBCOMMAND", help=argparse.SUPPRESS)
    return parser


def _parser(
    name: str, summary: str, add_arguments: Callable[[argparse.ArgumentParser], None]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m runs.qc {name}", description=summary)
    add_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the pictures and index.json")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object on the last line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
