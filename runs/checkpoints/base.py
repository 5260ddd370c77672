"""What the checkpoints of cryo-ET runs share: their phase, its files, and how their pictures are made."""

from collections.abc import Mapping
from typing import Any

from gates.models import Gate
from gates.protocols import APPROVE, Defaults, Preparation
from record.errors import BadInput
from record.models import Decision
from runs.evidence import files_of, needed_files, preparation
from runs.gatekeeping import author_of
from runs.models import Phase, Run
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.services.values import resolved_values
from runs.states import RunState

__all__ = ["Checkpoint", "author_of", "number_or_none", "phase_of", "run_values", "series_names", "spec_of_gate"]


class Checkpoint(Defaults):
    """A protocol whose subject is a phase. `needs_files` are names that an overlay must give patterns for."""

    needs_files: tuple[str, ...] = ()
    knows_options: tuple[str, ...] = ()

    def faults(self, options: dict[str, Any]) -> list[str]:
        """Options that this protocol doesn't know, or that are not text."""
        found = [f"{self.key} knows no option {name!r}" for name in options if name not in self.knows_options]
        return found + [
            f"option {name} must be a text" for name, value in options.items() if not isinstance(value, str)
        ]

    def persist(self, gate: Gate, decision: Decision) -> None:
        """Write back what was approved. A run that was cancelled or put away meanwhile takes no more changes."""
        run = phase_of(gate).run
        if decision.verdict == APPROVE and run.state != RunState.CANCELLED and run.archived_at is None:
            self.write_back(gate, decision)

    def write_back(self, gate: Gate, decision: Decision) -> None:
        """What an approval changes; safe to repeat. Nothing, unless a checkpoint says otherwise."""

    def preparation(self, gate: Gate, commands: list[list[str]]) -> Preparation:
        """The renderers' `commands` (subcommand and arguments) as one job in the run's folder, on its target."""
        return preparation(phase_of(gate), gate, commands)

    def files(self, gate: Gate, name: str) -> dict[str, str]:
        """series (or empty) -> absolute path of what the phase's verification found for that file pattern."""
        return files_of(phase_of(gate), gate, name)

    def needed(self, gate: Gate, name: str) -> dict[str, str]:
        """As `files`; BadInput where there is none."""
        return needed_files(phase_of(gate), gate, name)

    def the_file(self, gate: Gate, name: str) -> str:
        """The one file of that name; BadInput where it isn't there."""
        return next(iter(self.needed(gate, name).values()))

    def number_option(self, gate: Gate, option: str, default: str) -> float | None:
        """The number in the conf value that an option names; None where there is none."""
        return number_or_none(run_values(gate).get(gate.options.get(option, default), ""))


def phase_of(gate: Gate) -> Phase:
    """The phase that the gate is about; BadInput where it is gone."""
    phases = Phase.objects.with_run()
    phase = phases.filter(uuid=gate.subject_uuid).first()
    if phase is None:
        raise BadInput("The phase that this gate is about isn't there.")
    return phase


def spec_of_gate(gate: Gate) -> PipelineSpec:
    return spec_of(phase_of(gate).run.snapshot)


def run_values(gate: Gate) -> Mapping[str, str]:
    """The conf values that the phase's scripts saw."""
    phase = phase_of(gate)
    return resolved_values(spec_of(phase.run.snapshot), phase.run, phase.species)


def number_or_none(text: object) -> float | None:
    """The finite number that `text` is; None where it is none."""
    try:
        number = float(str(text))
    except ValueError:
        return None
    return number if number - number == 0 else None


def series_names(run: Run, *, excluded: bool | None = None) -> list[str]:
    """Names of the run's tilt series, sorted: all, the excluded, or the others."""
    series = run.tilt_series.order_by("name")
    if excluded is not None:
        series = series.filter(excluded_by__isnull=not excluded)
    return list(series.values_list("name", flat=True))
