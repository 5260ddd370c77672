"""What a look at a target found, for one run. Plain data."""

from dataclasses import asdict, dataclass
from typing import Any

OK = "ok"
MISSING = "missing"  # a question at the setup gate
BLOCKS = "blocks"  # nothing goes on past the setup gate until it is mended
UNKNOWN = "unknown"  # it could not be looked at


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `asks` names the conf value that says where it is, where there is one.

    `found` is its path or name as it was found, `version` what it says of itself.
    """

    key: str
    label: str
    status: str
    message: str
    remedy: str = ""
    asks: str = ""
    found: str = ""
    version: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_findings(rows: list[dict[str, Any]]) -> list[Finding]:
    """Findings as they are kept with a run; of a later or earlier version those fields count that are known here."""
    return [Finding(**{name: str(row.get(name, "")) for name in Finding.__dataclass_fields__}) for row in rows]
