"""The settings of a run as forms: one of its pipeline's values, one of each species'."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from record.models import Event
from runs.conf.errors import ConfFault
from runs.conf.evaluate import ConfValue
from runs.conf.files import ConfFile
from runs.conf.placeholders import is_placeholder
from runs.derive.checks import Finding, findings
from runs.derive.graph import DerivedRow, derived_rows
from runs.forms import FieldNote, SettingsForm
from runs.models import Run, Species
from runs.pipeline.spec import FieldSpec, PipelineSpec, spec_of
from runs.services.conf_values import RESERVED
from runs.services.values import (
    conf_files,
    evaluated_values,
    own_species_values,
    own_values,
    species_defaults,
)

CHANGES_SHOWN = 50


@dataclass
class LaneSettings:
    """The values of one lane: `current` as they are set, `seen` as the scripts see them."""

    key: str
    species: Species | None
    described: list[FieldSpec]
    others: list[FieldSpec]
    current: dict[str, str]
    notes: dict[str, FieldNote]
    seen: list[ConfValue]
    derived: list[DerivedRow]
    findings: list[Finding]
    problems: list[ConfFault]
    form: SettingsForm = field(init=False)

    def __post_init__(self) -> None:
        self.form = self._form(None)

    def bind(self, data: Mapping[str, Any]) -> None:
        """Take what was posted for this lane."""
        self.form = self._form(data)

    def _form(self, data: Mapping[str, Any] | None) -> SettingsForm:
        return SettingsForm(
            data,
            described=self.described,
            others=self.others,
            current=self.current,
            notes=self.notes,
            auto_id=f"id_{self.key or 'run'}_%s",
        )


@dataclass(frozen=True)
class Change:
    """One change of the settings, as the record has it."""

    event: Event
    rows: list[tuple[str, str, str]]  # name, before, after

    @property
    def lane(self) -> str:
        """The species whose values they are; empty for those of the run."""
        return self.event.data.get("species") or ""


def settings_forms(run: Run) -> list[LaneSettings]:
    """The run's own values first, then those of each species."""
    spec = spec_of(run.snapshot)
    lanes = [_lane(spec, run, None, spec.defaults | own_values(run))]
    for species in run.species.all():
        lanes.append(
            _lane(spec, run, species, species_defaults(spec, species.label) | own_species_values(spec, species))
        )
    return lanes


def changes_of(run: Run) -> list[Change]:
    """The latest changes of the run's settings, newest first."""
    events = Event.objects.filter(subject_uuid=run.uuid, kind="run.set_conf").select_related("decision__statement")
    rows = events.order_by("-id")[:CHANGES_SHOWN]
    return [
        Change(row, [(name, row.data["before"].get(name, ""), value) for name, value in row.data["after"].items()])
        for row in rows
    ]


def _lane(spec: PipelineSpec, run: Run, species: Species | None, current: dict[str, str]) -> LaneSettings:
    found, problems = evaluated_values(spec, run, species)
    values = {name: each.value for name, each in found.items()}
    file = conf_files(spec, run, species)[-1]
    own = species.conf if species else run.conf
    settable = [name for name in file.templates if name in current and not _is_reserved(name, species)]
    described = [each for each in spec.fields if each.species == bool(species) and each.key in current]
    named = {each.key for each in described}
    others = [FieldSpec(name, name, "text", help=file.comments.get(name, "")) for name in settable if name not in named]
    return LaneSettings(
        key=species.label if species else "",
        species=species,
        described=described,
        others=others,
        current=current,
        notes={name: _note(name, current, own, found.get(name)) for name in current},
        seen=sorted(found.values(), key=lambda each: each.name),
        derived=[row for row in derived_rows(values) if _belongs(row, file, species)],
        findings=[each for each in findings(values) if species is None or file.templates.keys() & set(each.names)],
        problems=problems,
    )


def _is_reserved(name: str, species: Species | None) -> bool:
    return name in RESERVED or (species is not None and name == "TM_LABEL")


def _belongs(row: DerivedRow, file: ConfFile, species: Species | None) -> bool:
    """A derived value is shown with a species where one of its inputs, or itself, is the species' own."""
    return species is None or bool(file.templates.keys() & {row.rule.name, *row.rule.inputs})


def _note(name: str, current: Mapping[str, str], own: Mapping[str, str], found: ConfValue | None) -> FieldNote:
    text = current[name]
    warning = ""
    if is_placeholder(text):
        warning = "still an example's value: give your own"
    elif found is not None and found.unset:
        warning = f"{', '.join(found.unset)} has no value there"
    if found is not None and found.formula:
        return FieldNote("derived", found.value, warning, found.formula)
    shown = found.value if found is not None and found.value != text else ""
    return FieldNote("user" if name in own else "default", shown, warning)
