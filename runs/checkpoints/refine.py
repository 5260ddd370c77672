"""After the averages of one species: is the map what it is said to be, and can it be signed off?"""

from collections.abc import Mapping
from typing import Any

from django import forms

from gates.fields import PlainText
from gates.models import Gate
from gates.protocols import APPROVE, VERDICTS, Preparation, Verdict
from runs.checkpoints.base import Checkpoint, number_or_none, phase_of


class Refine(Checkpoint):
    """Shows the mask over the map, its sections, and the Fourier shell correlation of the half-maps."""

    key = "refine"
    title = "Refinement"
    needs_files = ("half1", "half2", "map")
    knows_options = ("pixel_size",)
    verdicts = VERDICTS | {APPROVE: Verdict("Sign off", "The map and its resolution are signed off.")}

    def plan(self, gate: Gate) -> Preparation:
        apix_a = self.number_option(gate, "pixel_size", "")
        apix = [] if apix_a is None else ["--apix", f"{apix_a:g}"]
        species = phase_of(gate).species
        label = ["--label", species.label] if species else []
        density, mask = self.the_file(gate, "map"), self.files(gate, "mask")
        halves = ["--half1", self.the_file(gate, "half1"), "--half2", self.the_file(gate, "half2")]
        commands = [["averages", "--map", density, *apix]]
        if mask:
            [path] = mask.values()
            commands.insert(0, ["mask", "--map", density, "--mask", path, *label, *apix])
            halves += ["--mask", path]
        return self.preparation(gate, [*commands, ["fsc", *halves, *label, *apix]])

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        remark = PlainText(
            label="Remark",
            required=False,
            max_length=2000,
            widget=forms.Textarea(attrs={"rows": 3}),
            help_text="What the sign-off rests on; kept with the decision.",
        )
        form: forms.Form = type("RefineForm", (forms.Form,), {"remark": remark})(data, initial=gate.suggestion)
        return form

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        species = phase_of(gate).species
        whose = f"the map of {species.label}" if species else "the map"
        found = resolution(gate.figures)
        return f"Signs off {whose}{f' at {found:.1f} Å (FSC 0.143)' if found else ''}."


def resolution(figures: Mapping[str, Any]) -> float | None:
    """The resolution in Angstrom at which the FSC first crosses 0.143; None where there is none."""
    for part in figures.values():
        if isinstance(part, dict) and (value := number_or_none(part.get("resolution_angstrom"))) is not None:
            return value
    return None


PROTOCOL = Refine()
