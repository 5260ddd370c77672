"""What is printed: a table of what was tried, what went wrong in sentences, and last a line of JSON."""

import json
from collections.abc import Iterable

from faults.trials import Part, lines_of, total

COUNTS = ("trials", "lost", "doubled", "wrong")
HEAD = f"{'where':<22} {'who':<20} {'what':<20} {'when':<30} " + " ".join(f"{name:>7}" for name in COUNTS)


def table(parts: Iterable[Part]) -> str:
    """One line for each fault, boundary and place."""
    rows = [HEAD]
    for part in parts:
        for (where, whom, what, boundary), line in lines_of(part.trials).items():
            counts = " ".join(f"{getattr(line, name):>7}" for name in COUNTS)
            rows.append(f"{where:<22} {whom:<20} {what:<20} {boundary:<30} {counts}")
    return "\n".join(rows)


def complaints(parts: Iterable[Part]) -> list[str]:
    """All that is not as it should be, a sentence each; an empty list where all is well."""
    found = []
    for part in parts:
        for trial in part.trials:
            at = f"{trial.where}: {trial.fault.what} of {trial.fault.whom} at {trial.fault.boundary}: {trial.key}"
            found += [f"{at}: {text}" for text in (trial.lost, trial.doubled, trial.wrong) if text]
        found += [f"{part.name}: the record: {text}" for text in part.chain_faults]
        if part.failure:
            found.append(f"{part.name}: not carried out to its end: {part.failure}")
    return found


def as_json(parts: list[Part], *, seconds: float) -> str:
    """The last line."""
    line = total([trial for part in parts for trial in part.trials])
    chain_ok = not any(part.chain_faults or part.failure for part in parts) and any(part.chains for part in parts)
    return json.dumps(
        {
            "trials": line.trials,
            "lost": line.lost,
            "doubled": line.doubled,
            "wrong": line.wrong,
            "chain_ok": chain_ok,
            "seconds": round(seconds),
        }
    )
