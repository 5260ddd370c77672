"""The settings of a run as forms: one of its pipeline's values, one of each species'."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.forms import SettingsForm
from runs.models import Run, Species
from runs.pipeline.spec import FieldSpec, spec_of
from runs.services.values import own_species_values, own_values, resolved_values, species_defaults


@dataclass
class LaneSettings:
    """The values of one lane: `current` as they are set, `seen` as the scripts see them."""

    key: str
    species: Species | None
    described: list[FieldSpec]
    current: dict[str, str]
    seen: list[tuple[str, str]]

    def __post_init__(self) -> None:
        self.form = self._form(None)

    def bind(self, data: Mapping[str, Any]) -> None:
        """Take what was posted for this lane."""
        self.form = self._form(data)

    def _form(self, data: Mapping[str, Any] | None) -> SettingsForm:
        return SettingsForm(data, described=self.described, current=self.current, auto_id=f"id_{self.key or 'run'}_%s")


def settings_forms(run: Run) -> list[LaneSettings]:
    """The run's own values first, then those of each species."""
    spec = spec_of(run.snapshot)
    shared = [each for each in spec.fields if not each.species]
    special = [each for each in spec.fields if each.species]
    lanes = [
        LaneSettings(
            "", None, shared, spec.defaults | own_values(run), sorted(resolved_values(spec, run, None).items())
        )
    ]
    for species in run.species.all():
        current = species_defaults(spec, species.label) | own_species_values(spec, species)
        seen = sorted(resolved_values(spec, run, species).items())
        lanes.append(LaneSettings(species.label, species, special, current, seen))
    return lanes
