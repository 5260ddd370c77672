"""What is wrong with a conf file, each with its line."""

from dataclasses import dataclass

from record.errors import BadInput


@dataclass(frozen=True, order=True)
class ConfFault:
    """One line that can't be read. `line` is from 1."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


class ConfRefused(BadInput):
    """A conf file whose values can't be told without running it; `faults` are all that were found."""

    code = "conf_refused"

    def __init__(self, faults: list[ConfFault]) -> None:
        self.faults = sorted(set(faults))
        super().__init__(
            "\n".join(str(fault) for fault in self.faults),
            extra={"faults": [{"file": f.file, "line": f.line, "message": f.message} for f in self.faults]},
        )


class Unreadable(Exception):
    """One statement is not of the grammar; the reader adds file and line."""
