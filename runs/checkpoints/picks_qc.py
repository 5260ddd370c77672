"""After the picks of one species: from which score on is a pick a particle, and in which tilt series?"""

import math
from collections.abc import Mapping
from typing import Any

from django import forms

from gates.fields import Items, Number
from gates.models import Gate
from gates.protocols import APPROVE, VERDICTS, Preparation, Verdict
from record.errors import BadInput
from record.models import Decision
from runs.checkpoints.base import (
    Checkpoint,
    author_of,
    number_or_none,
    phase_of,
    run_values,
    series_names,
    spec_of_gate,
)
from runs.checkpoints.judging import apply_judgement, describe_judgement
from runs.services.board import series_names as names_of_lane
from runs.services.settings import set_conf

THRESHOLD, SERIES = "min_score", "series"


class PicksQc(Checkpoint):
    """Shows the picks over each tomogram and the histogram of their scores, with the known truth where there is one.

    Options name conf values: `threshold` (default MIN_SCORE), `diameter` (DIAMETER, Angstrom), `pixel_size`.
    """

    key = "picks_qc"
    title = "Picks"
    needs_files = ("tomogram", "picks")
    knows_options = ("threshold", "diameter", "pixel_size")
    verdicts = VERDICTS | {APPROVE: Verdict("Approve", "Picks with at least this score go on.")}

    def plan(self, gate: Gate) -> Preparation:
        picks, tomograms, truth = self.needed(gate, "picks"), self.needed(gate, "tomogram"), self.files(gate, "truth")
        common = self._common(gate)
        commands = [
            ["picks", "--tomogram", tomograms[name], "--picks", path, *_given("--truth", truth.get(name)), *common]
            for name, path in picks.items()
            if name in tomograms
        ]
        known = [path for name, path in truth.items() if name in picks]
        commands.append(["histogram", "--picks", *picks.values(), *(["--truth", *known] if known else []), *common])
        return self.preparation(gate, commands)

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        """The threshold that the histogram suggests, else the one in use; tilt series as this lane has them now."""
        threshold = _suggested(figures)
        if threshold is None:
            threshold = number_or_none(run_values(gate).get(_threshold_name(gate), ""))
        phase = phase_of(gate)
        taken = names_of_lane(phase.run, phase.species).active
        rows = {name: {"keep": name in taken, "note": ""} for name in series_names(phase.run, excluded=False)}
        return {SERIES: rows} | ({} if threshold is None else {THRESHOLD: threshold})

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        names = list(gate.suggestion.get(SERIES, {})) or series_names(phase_of(gate).run, excluded=False)
        fields = {
            THRESHOLD: Number(
                label=f"Least score ({_threshold_name(gate)})",
                help_text="Picks with at least this score go on.",
                **_bounds(gate),
            ),
            SERIES: Items(items=names, verdicts={}, label="Tilt series", required=bool(names)),
        }
        form: forms.Form = type("PicksForm", (forms.Form,), fields)(data, initial=gate.suggestion)
        return form

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        species = phase_of(gate).species
        whose = f" of {species.label}" if species else ""
        judged = describe_judgement(answers.get(SERIES, {}))
        judged += f" for {species.label} alone" if species and "excludes" in judged else ""
        return f"Sets {_threshold_name(gate)}{whose} to {answers.get(THRESHOLD)}; {judged}."

    def write_back(self, gate: Gate, decision: Decision) -> None:
        """Write the threshold to the species' conf; leave out and bring back tilt series for this species alone."""
        phase, answers = phase_of(gate), decision.statement.answers
        set_conf(
            run=phase.run,
            species=phase.species,
            values={_threshold_name(gate): answers[THRESHOLD]},
            author=author_of(decision),
            reason=decision.statement.reason,
            decision=decision,
        )
        apply_judgement(phase.run, answers.get(SERIES, {}), decision, phase.species)

    def _common(self, gate: Gate) -> list[str]:
        threshold = number_or_none(run_values(gate).get(_threshold_name(gate), ""))
        diameter = self.number_option(gate, "diameter", "DIAMETER")
        apix = self.number_option(gate, "pixel_size", "")
        return [
            *_given("--min-score", threshold),
            *_given("--diameter-angstrom", diameter),
            *_given("--apix", apix),
        ]


def _bounds(gate: Gate) -> dict[str, Any]:
    """Bounds and unit of the threshold, as the overlay describes it."""
    field = spec_of_gate(gate).field_by_key.get(_threshold_name(gate))
    if field is None:
        return {}
    if field.kind != "number":
        raise BadInput(f"{field.key} is described as {field.kind}: a threshold must be a number.")
    return {"unit": field.unit, "min_value": field.min, "max_value": field.max}


def _threshold_name(gate: Gate) -> str:
    return str(gate.options.get("threshold", "MIN_SCORE"))


def _suggested(figures: Mapping[str, Any]) -> float | None:
    """The suggested threshold to four significant digits, rounded down: the pick at the threshold itself is kept."""
    for part in figures.values():
        if isinstance(part, dict) and (value := number_or_none(part.get("suggested_min_score"))) is not None:
            scale = 10.0 ** (3 - math.floor(math.log10(abs(value)))) if value else 1.0
            return math.floor(value * scale) / scale
    return None


def _given(option: str, value: object) -> list[str]:
    if value is None:
        return []
    return [option, f"{value:g}" if isinstance(value, float) else str(value)]


PROTOCOL = PicksQc()
