"""Reads what a lab's `validate.sh --json` prints. Plain data; its exit code is never looked at.

It prints one line of JSON: `phase`, `errors`, `warnings` and `checks`, each with `status` and `message`, and for
`phase_completion` with `phase`, `done` and `total`. The exit code is the number of errors modulo 256, so that 256
errors end in 0, and a phase that it does not know ends in 0 too, with no errors.
"""

import json
from dataclasses import dataclass
from typing import Any

from django.db.models import TextChoices

from record.errors import BadInput

COMPLETION = "phase_completion"
STATUSES = frozenset({"pass", "fail", "warn", "info", COMPLETION})
SHOWN_CHARS = 400


class Answer(TextChoices):
    """What a check comes to. Not checked is neither of the others: nothing was looked at, or not all of it can be."""

    PASS = "pass", "pass"  # noqa: S105 -- a verdict
    FAIL = "fail", "fail"
    NOT_CHECKED = "not_checked", "not checked"
    NOT_STARTED = "not_started", "not started"


@dataclass(frozen=True)
class Row:
    """One check. `done` and `total` are counts of a `phase_completion`, else 0; `phase` may be empty."""

    status: str
    message: str
    phase: str = ""
    done: int = 0
    total: int = 0


@dataclass(frozen=True)
class Report:
    """What was printed: `phase` as it was asked for, and every row that counts."""

    phase: str
    errors: int
    warnings: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Judgement:
    """What a check says of one phase; counts are sums over its rows. `problems` are in words."""

    answer: Answer
    done: int = 0
    total: int = 0
    problems: tuple[str, ...] = ()


def parse_report(printed: str) -> Report:
    """The report in the last line of what was printed; BadInput, with what was printed, where there is none."""
    lines = [line for line in printed.splitlines() if line.strip()]
    try:
        raw = json.loads(lines[-1]) if lines else None
    except ValueError:
        raw = None
    if not isinstance(raw, dict) or not isinstance(raw.get("checks"), list):
        said = printed.strip()[-SHOWN_CHARS:]
        raise BadInput(f"validate.sh printed no report: {said}" if said else "validate.sh printed nothing.")
    rows = [_row(each) for each in raw["checks"]]
    return Report(
        phase=_text(raw.get("phase")),
        errors=_count(raw.get("errors", 0), "errors"),
        warnings=_count(raw.get("warnings", 0), "warnings"),
        rows=tuple(row for i, row in enumerate(rows) if not _is_twin(row, rows[i - 1] if i else None)),
    )


def judge(report: Report, phase: str) -> Judgement:
    """What the report says of a phase: it is complete only where all of its rows are.

    Not checked where the report is about another phase, or has no row that tests anything.
    """
    rows = [row for row in report.rows if row.phase == phase or (not row.phase and report.phase == phase)]
    counts = [row for row in rows if row.status == COMPLETION]
    done, total = sum(row.done for row in counts), sum(row.total for row in counts)
    incomplete = [row.message for row in counts if row.done < row.total or row.total == 0]
    failed = [row.message for row in rows if row.status == "fail"]
    problems = tuple(dict.fromkeys([*failed, *incomplete]))
    if problems:
        return Judgement(Answer.FAIL, done, total, problems)
    if report.errors and report.phase == phase:
        return Judgement(Answer.FAIL, done, total, (f"it counts {report.errors} errors, and names none",))
    tested = counts or any(row.status == "pass" for row in rows)
    return Judgement(Answer.PASS if tested else Answer.NOT_CHECKED, done, total)


def _row(raw: Any) -> Row:
    if not isinstance(raw, dict) or raw.get("status") not in STATUSES:
        raise BadInput(f"validate.sh reported a check that is none: {str(raw)[:SHOWN_CHARS]}")
    counts = {name: _count(raw.get(name, 0), name) for name in ("done", "total")} if raw["status"] == COMPLETION else {}
    return Row(raw["status"], str(raw.get("message", "")), _text(raw.get("phase")), **counts)


def _is_twin(row: Row, before: Row | None) -> bool:
    """Whether it says once more, with another status, what the completion before it has said."""
    if before is None or before.status != COMPLETION or row.status == COMPLETION:
        return False
    return row.message == before.message and row.phase in ("", before.phase)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadInput(f"validate.sh reported {name} as {str(value)[:40]!r}, which is no count.")
    return value


def _text(value: Any) -> str:
    """A phase's name, which JSON may have as a number: 3.5, 1."""
    return "" if value is None else str(value)
