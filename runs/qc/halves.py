"""Splits a STAR file's particles at random into two halves. Plain Python: needs no library.

`python -m runs.qc.halves --of sel.star --first a.star --second b.star --seed N` writes both halves, header and all, and
beside the first a `.json` with the seed, the counts and the digest of the list that was split.
"""

import argparse
import hashlib
import json
import os
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

TORN = "the table of particles is torn: line {line} has {found} values, and its header names {wanted}"


class BadStar(Exception):
    """A STAR file that can't be split, in words."""


@dataclass(frozen=True)
class Table:
    """A STAR file around its particles: `head`, one line a particle in `rows`, `tail`. Lines keep their ends."""

    head: list[str]
    rows: list[str]
    tail: list[str]

    def with_rows(self, rows: list[str]) -> str:
        return "".join([*self.head, *rows, *self.tail])


def read_table(text: str) -> Table:
    """The particles of a STAR file: the loop of `data_particles`, else the one with the most rows.

    BadStar where there is none, or one that is torn.
    A file of which the last line is cut off within its values is torn, too: each row has as many as its header names.
    """
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    loops = [_loop(lines, i) for i, line in enumerate(lines) if line.strip() == "loop_"]
    if not loops:
        raise BadStar("there is no table (loop_) in it")
    block = next((i for i, line in enumerate(lines) if line.strip() == "data_particles"), 0)
    of_block = [loop for loop in loops if loop[0] > block][:1] if block else loops
    start, end, columns = max(of_block or loops, key=lambda loop: loop[1] - loop[0])
    for i in range(start, end):
        if (found := len(lines[i].split())) != columns:
            raise BadStar(TORN.format(line=i + 1, found=found, wanted=columns))
    if end == start:
        raise BadStar("its table has no rows")
    rows = lines[start:end]
    if not rows[-1].endswith(("\n", "\r")):
        rows[-1] += "\n"
    return Table(lines[:start], rows, lines[end:])


def _loop(lines: list[str], at: int) -> tuple[int, int, int]:
    """(first row, row after the last, columns) of the loop that begins at line `at`."""
    start = at + 1
    while start < len(lines) and (lines[start].lstrip().startswith(("_", "#")) or not lines[start].strip()):
        start += 1
    columns = sum(line.lstrip().startswith("_") for line in lines[at + 1 : start])
    end = start
    while end < len(lines) and lines[end].strip() and not lines[end].startswith(("data_", "loop_")):
        end += 1
    return start, end, columns


def split_rows(rows: list[str], seed: int) -> tuple[list[str], list[str]]:
    """Two random halves in the list's own order; of an odd number the first has one more."""
    chosen = list(range(len(rows)))
    random.Random(seed).shuffle(chosen)  # noqa: S311 -- a split that can be made again, no secret
    first = set(chosen[: (len(rows) + 1) // 2])
    return [row for i, row in enumerate(rows) if i in first], [row for i, row in enumerate(rows) if i not in first]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m runs.qc.halves", description=__doc__)
    for name in ("of", "first", "second"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    args = parser.parse_args(argv)
    try:
        data = args.of.read_bytes()
        table = read_table(data.decode())
        if len(table.rows) < 2:
            raise BadStar("it has one particle only: there are no two halves")
    except (OSError, UnicodeDecodeError, BadStar) as error:
        print(f"{args.of} can't be split: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
        return 1
    halves = split_rows(table.rows, args.seed)
    for path, rows in zip((args.first, args.second), halves, strict=True):
        _write(path, table.with_rows(rows))
    facts = {
        "of": str(args.of),
        "sha256": hashlib.sha256(data).hexdigest(),
        "seed": args.seed,
        "particles": [len(rows) for rows in halves],
    }
    _write(args.first.with_suffix(".json"), json.dumps(facts, indent=2) + "\n")
    print(f"{args.of}: {len(table.rows)} particles, split into {len(halves[0])} and {len(halves[1])}, seed {args.seed}")
    return 0


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.part{os.getpid()}")
    scratch.write_bytes(text.encode())
    scratch.rename(path)


if __name__ == "__main__":
    sys.exit(main())
