"""What is wrong with a pipeline: each with its file and line."""

from dataclasses import dataclass

from record.errors import BadInput


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong. `file` is relative to the pipeline's folder; `line` is from 1, 0 for the whole file."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class PipelineFaults(BadInput):
    """A pipeline that can't be used as it is; nothing was started. `faults` are all that were found."""

    code = "pipeline_faults"

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = sorted(set(faults))
        shown = "\n".join(str(fault) for fault in self.faults)
        super().__init__(
            f"The pipeline can't be used as it is:\n{shown}",
            extra={"faults": [{"file": f.file, "line": f.line, "message": f.message} for f in self.faults]},
        )
