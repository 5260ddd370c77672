"""After the reconstruction: which tilt series are good enough to go on with?"""

from collections.abc import Mapping
from typing import Any

from django import forms

from gates.advice import item_question, sections_of
from gates.fields import BAD, GOOD, SUSPECT, Items
from gates.models import Gate
from gates.protocols import APPROVE, VERDICTS, Preparation, Verdict
from jobs.agents.prompts import Template
from jobs.agents.services import Question
from record.models import Decision
from runs.checkpoints.base import Checkpoint, phase_of, series_names
from runs.checkpoints.judging import apply_judgement, describe_judgement

FIELD = "series"
_KNOWN = (GOOD, SUSPECT, BAD)

LOOK = Template(
    key="alignment_qc.tomogram",
    version=1,
    question=(
        "A cryo-electron tomogram was reconstructed from one tilt series. Advise the person who decides whether the "
        "tilt series is good enough to go on with: good (use it), suspect (a person should look closely, and say at "
        "what) or bad (leave it out). Look for a poor alignment (features smeared or doubled, high residuals), missing "
        "or spoilt views, low contrast, and ice or carbon where particles should be. Judge by the figures and pictures "
        "of this item alone, and say in one or two sentences what you saw."
    ),
    properties={
        "verdict": {"enum": [GOOD, SUSPECT, BAD]},
        "reason": {"type": "string", "minLength": 1, "maxLength": 600},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    required=("verdict", "reason"),
)


class AlignmentQc(Checkpoint):
    """Shows sections of every tomogram; suggests to exclude the tilt series that the renderer judges bad.

    Options name conf values: `pixel_size` (Angstrom), and `max_residual` (px), above which an alignment is suspect.
    """

    key = "alignment_qc"
    title = "Alignment"
    needs_files = ("tomogram",)
    knows_options = ("pixel_size", "max_residual")
    verdicts = VERDICTS | {
        APPROVE: Verdict("Approve", "Tilt series that are not kept are left out of everything that follows.")
    }

    def plan(self, gate: Gate) -> Preparation:
        command = ["slices", *self.needed(gate, "tomogram").values()]
        if residuals := self.files(gate, "residuals"):
            command += ["--residuals", next(iter(residuals.values()))]
        if (limit_px := self.number_option(gate, "max_residual", "")) is not None:
            command += ["--max-residual-px", f"{limit_px:g}"]
        if (apix := self.number_option(gate, "pixel_size", "")) is not None:
            command += ["--apix", f"{apix:g}"]
        return self.preparation(gate, [command])

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        """A row for each tilt series; one that is excluded already stays so."""
        run = phase_of(gate).run
        excluded = set(series_names(run, excluded=True))
        judged = {name: _judged(figures, name) for name in series_names(run)}
        rows = {
            name: {"verdict": verdict, "keep": name not in excluded and verdict != BAD, "note": ""}
            for name, (verdict, _) in judged.items()
        }
        reasons = {name: {"verdict": verdict, "reason": reason} for name, (verdict, reason) in judged.items()}
        return {FIELD: rows, "items": reasons}

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        names = list(gate.suggestion.get(FIELD, {})) or series_names(phase_of(gate).run)
        field = Items(items=names, suggested=gate.suggestion.get("items"), label="Tilt series")
        made = type("AlignmentForm", (forms.Form,), {FIELD: field})
        form: forms.Form = made(data, initial=gate.suggestion)
        return form

    def questions(self, gate: Gate) -> list[Question]:
        """One a tilt series that this gate judges."""
        sections = sections_of(gate)
        return [item_question(gate, LOOK, name, sections) for name in gate.suggestion.get(FIELD, {})]

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        return _sentence(describe_judgement(answers.get(FIELD, {})))

    def write_back(self, gate: Gate, decision: Decision) -> None:
        """Exclude and bring back what was approved."""
        apply_judgement(phase_of(gate).run, decision.statement.answers.get(FIELD, {}), decision)


def _judged(figures: Mapping[str, Any], name: str) -> tuple[str, str]:
    """(verdict, reason) of one tilt series; what could not be rendered is suspect, and says why."""
    for part in figures.values():
        found = part.get("series", {}).get(name) if isinstance(part, dict) else None
        if isinstance(found, dict):
            if "error" in found:
                return SUSPECT, str(found["error"])
            verdict = found.get("verdict")
            return (verdict if verdict in _KNOWN else SUSPECT), str(found.get("reason", ""))
    return SUSPECT, "there are no figures of it"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


PROTOCOL = AlignmentQc()
