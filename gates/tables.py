"""Tables among the evidence, cut to what a page can show."""

import csv
from dataclasses import dataclass
from io import StringIO

from gates.models import Evidence
from gates.store import CSV, JSON_TYPE, read_evidence
from record.errors import BadInput

MAX_COLUMNS = 40
MAX_CELL_CHARACTERS = 200


@dataclass(frozen=True)
class Table:
    """The head of a table. `total` counts all its rows; `cut`: columns or cells were left out or shortened."""

    columns: list[str]
    rows: list[list[str]]
    total: int
    cut: bool

    @property
    def is_whole(self) -> bool:
        return not self.cut and len(self.rows) == self.total


def read_table(evidence: Evidence, limit: int = 200) -> Table:
    """The first `limit` rows of a TSV or CSV whose first line names the columns. Lines that begin with # are left out.

    EvidenceLost where the file is gone or altered; BadInput for what is no table.
    """
    if evidence.media_type == JSON_TYPE:
        raise BadInput(f"{evidence.name} is JSON, not a table of rows; look at the file itself.")
    text = read_evidence(evidence).decode("utf-8-sig")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return Table([], [], 0, False)
    comma = evidence.media_type == CSV
    head = StringIO("\n".join(lines[: limit + 1]))
    try:
        shown = list(csv.reader(head) if comma else csv.reader(head, delimiter="\t", quoting=csv.QUOTE_NONE))
    except csv.Error as error:
        raise BadInput(f"{evidence.name} can't be read as a table: {error}.") from error
    width = max(len(row) for row in shown)
    cut = width > MAX_COLUMNS or any(len(cell) > MAX_CELL_CHARACTERS for row in shown for cell in row)
    cells = [[_short(cell) for cell in row[:MAX_COLUMNS]] for row in shown]
    even = [row + [""] * (min(width, MAX_COLUMNS) - len(row)) for row in cells]
    return Table(even[0], even[1:], len(lines) - 1, cut)


def _short(cell: str) -> str:
    return cell if len(cell) <= MAX_CELL_CHARACTERS else f"{cell[: MAX_CELL_CHARACTERS - 1]}…"
