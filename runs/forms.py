"""The forms of the run pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.utils.text import slugify

from jobs.models import Target
from record.errors import ConductorError
from runs.models import Pipeline, Run
from runs.pipeline.spec import FieldSpec, PipelineSpec
from runs.states import RunState

CONF = "conf_"
OF_SPECIES = {
    each.key: each
    for each in [
        FieldSpec("INPUT_MRC", "Map", "text", help="The template is made of it; or lies ready: templates/LABEL_tm.mrc"),
        FieldSpec("MAP_ANGPIX", "Pixel size of the map", "text", unit="Å"),
        FieldSpec("DIAMETER", "Diameter", "text", unit="Å", help="Of the sphere that holds a particle"),
        FieldSpec("TEMPLATE_INVERT", "Invert the template", "text", help="1 where its contrast is not the tomograms'"),
        FieldSpec("NUM_CANDIDATES", "Candidates", "text", help="Best places listed for each tilt series"),
        FieldSpec("DATADIR", "Folder of its subtomograms", "text"),
    ]
}


class RunFilter(forms.Form):
    """Part of a run's name or folder; its state; archived ones only on demand."""

    q = forms.CharField(label="Name or folder", required=False, max_length=120)
    state = forms.ChoiceField(label="State", required=False, choices=[("", "any"), *RunState.choices])
    archived = forms.BooleanField(label="archived ones too", required=False)

    def narrow(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """`runs` cut down to what the form asks for."""
        asked = self.cleaned_data if self.is_valid() else {}
        if not asked.get("archived"):
            runs = runs.filter(archived_at=None)
        if asked.get("state"):
            runs = runs.filter(state=asked["state"])
        if words := asked.get("q"):
            runs = runs.filter(Q(name__icontains=words) | Q(work_dir__icontains=words))
        return runs


class ConfForm(forms.Form):
    """What a form has that sets values of conf files: their fields are named `conf_KEY`."""

    def conf_fields(self) -> list[forms.BoundField]:
        """The fields of values."""
        return [bound for bound in self if bound.name.startswith(CONF)]

    def plain_fields(self) -> list[forms.BoundField]:
        """All the others."""
        return [bound for bound in self if not bound.name.startswith(CONF)]

    def refuse(self, refusal: ConductorError) -> None:
        """Put what the service has against it where the person looks for it."""
        told = refusal.extra.get("fields", {})
        for key, message in told.items():
            self.add_error(f"{CONF}{key}" if f"{CONF}{key}" in self.fields else None, message)
        if not told:
            self.add_error(None, refusal.message)


SOURCES = {"user": "set for this run", "derived": "derived", "default": "as the pipeline has it"}


@dataclass(frozen=True)
class FieldNote:
    """What stands beside a value: where it is from, what it comes to, and what is odd about it."""

    source: str  # user, derived or default
    value: str = ""
    warning: str = ""
    formula: str = ""

    def __str__(self) -> str:
        comes_to = f" = {self.formula}" if self.formula else ""
        value = f": {self.value}" if self.value else ""
        return f"{SOURCES[self.source]}{comes_to}{value}"


class SettingsForm(ConfForm):
    """All values of a run (or of one of its species), as they are now; first those that its pipeline describes."""

    reason = forms.CharField(
        label="Reason", required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 2, "maxlength": 10_000})
    )

    def __init__(
        self,
        *args: Any,
        described: list[FieldSpec],
        others: list[FieldSpec],
        current: Mapping[str, str],
        notes: Mapping[str, FieldNote],
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.others = {f"{CONF}{each.key}" for each in others}
        for each in [*described, *others]:
            field = conf_field(each, "")
            if isinstance(field, forms.ChoiceField):
                field.choices = [(choice, choice) for choice in each.choices]
            field.initial = current.get(each.key, "")
            field.note = notes.get(each.key)  # type: ignore[attr-defined]  # shown below the field
            self.fields[f"{CONF}{each.key}"] = field

    def described_fields(self) -> list[forms.BoundField]:
        """The values that the pipeline describes."""
        return [bound for bound in self.conf_fields() if bound.name not in self.others]

    def other_fields(self) -> list[forms.BoundField]:
        """All others of the conf file."""
        return [bound for bound in self.conf_fields() if bound.name in self.others]

    def other_errors(self) -> bool:
        """Whether one of the others is wrong."""
        return any(bound.errors for bound in self.other_fields())

    def values(self) -> dict[str, str]:
        """KEY -> text of every value that was posted; those that are as before change nothing."""
        posted = [key for key in self.cleaned_data if key.startswith(CONF) and key in self.data]
        return {key.removeprefix(CONF): self.cleaned_data[key] for key in posted}


class SpeciesForm(ConfForm):
    """A species that comes to a run: its label and the values of its conf; an empty one is as the pipeline has it."""

    label = forms.CharField(label="Label", max_length=32, help_text="Names its files and its lane: A-Z a-z 0-9 _.")
    reason = forms.CharField(
        label="Reason", required=False, max_length=10_000, widget=forms.Textarea(attrs={"rows": 2, "maxlength": 10_000})
    )

    def __init__(self, *args: Any, spec: PipelineSpec, names: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pattern = spec.species_template or {}
        for name in names:
            described = spec.field_by_key.get(name) or OF_SPECIES.get(name) or FieldSpec(name, name, "text")
            default = "subtomo_LABEL" if name == "DATADIR" else pattern.get(name, "")
            self.fields[f"{CONF}{name}"] = conf_field(described, default)

    def values(self) -> dict[str, str]:
        """KEY -> text of the values that were given."""
        given = self.cleaned_data.items()
        return {name.removeprefix(CONF): value for name, value in given if name.startswith(CONF) and value}


class NewRunForm(ConfForm):
    """What a run needs to be told. The fields that the pipeline describes come last; an empty one changes nothing."""

    name = forms.CharField(
        label="Name", max_length=300, help_text="What you will look for it by. At most 120 characters."
    )
    target = forms.ModelChoiceField(label="Target", queryset=Target.objects.none(), help_text="Where it runs.")
    work_dir = forms.CharField(label="Work folder", max_length=1000, required=False)
    replay = forms.BooleanField(
        label="Replay: start nothing",
        required=False,
        help_text="What lies in the work folder is read, up to the next gate, and presented; nothing is submitted.",
    )
    in_place = forms.BooleanField(
        label="Use the pipeline's folder in place",
        required=False,
        help_text="No copy is made: its confs are written there, and a script that somebody changes stops the run.",
    )
    preset = forms.ChoiceField(label="Preset", required=False, help_text="Values that go together.")
    species = forms.MultipleChoiceField(
        label="Species",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Each becomes a lane of its own.",
    )
    more_species = forms.CharField(
        label="Other species", max_length=500, required=False, help_text="Labels with spaces between: A-Z a-z 0-9 _."
    )

    optional = forms.MultipleChoiceField(
        label="Optional phases",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Others of them are skipped; they can be run later.",
    )

    def __init__(self, *args: Any, pipeline: Pipeline, spec: PipelineSpec, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.spec = spec
        targets = Target.objects.filter(lab=pipeline.lab, archived_at=None)
        self._offer_targets(list(targets), targets)
        self._offer_presets()
        self._offer_species()
        self._offer_optional()
        values = {**spec.defaults, **self._preset_values()}
        for each in spec.fields:
            if not each.species:
                self.fields[f"{CONF}{each.key}"] = conf_field(each, values.get(each.key, ""))

    def wishes(self) -> dict[str, Any]:
        """The cleaned form as create_run's arguments; without a work folder one beside the others is named."""
        data = self.cleaned_data
        return {
            "target": data["target"],
            "name": data["name"],
            "work_dir": data["work_dir"].strip() or suggested_folder(data["target"], data["name"]),
            "preset": data.get("preset", ""),
            "optional": data.get("optional", []),
            "replay": data["replay"],
            "in_place": data["in_place"],
            "species": [*data.get("species", []), *data.get("more_species", "").split()],
            "conf": {key.removeprefix(CONF): value for key, value in data.items() if key.startswith(CONF) and value},
        }

    def _preset_values(self) -> dict[str, str]:
        """What the chosen preset sets: the one that was posted, else the one that is shown first."""
        chosen = self.data.get("preset") if self.is_bound else self.initial.get("preset")
        by_key = {each.key: each.conf for each in self.spec.presets}
        return by_key.get(str(chosen), next(iter(by_key.values()), {}))

    def _offer_targets(self, rows: list[Target], queryset: QuerySet[Target]) -> None:
        field = self.fields["target"]
        field.queryset = queryset  # type: ignore[attr-defined]
        if len(rows) == 1:
            field.initial = rows[0]
        roots = [root for row in rows for root in row.roots[:1]]
        where = f"{roots[0].rstrip('/')}/NAME" if roots else "a folder in the target's first root"
        self.fields["work_dir"].help_text = f"Absolute, on the target. Left empty: {where}."

    def _offer_presets(self) -> None:
        if not self.spec.presets:
            del self.fields["preset"]
            return
        self.fields["preset"].choices = [(each.key, each.title or each.key) for each in self.spec.presets]  # type: ignore[attr-defined]

    def _offer_optional(self) -> None:
        choices = [(each.key, f"{each.key}: {each.title}") for each in self.spec.phases if each.optional]
        if choices:
            self.fields["optional"].choices = choices  # type: ignore[attr-defined]
        else:
            del self.fields["optional"]

    def _offer_species(self) -> None:
        labels = list(self.spec.species)
        if labels:
            self.fields["species"].choices = [(label, label) for label in labels]  # type: ignore[attr-defined]
            self.fields["species"].initial = labels
        else:
            del self.fields["species"]
        if self.spec.species_template is None:
            del self.fields["more_species"]


def conf_field(spec: FieldSpec, default: str) -> forms.Field:
    """A field for one value of pipeline.conf; empty, it stays as it is. The service checks unit and bounds."""
    key = spec.key if spec.key != spec.label else ""
    helped = "; ".join(part for part in [spec.help.rstrip("."), _bounds(spec), key] if part)
    common: dict[str, Any] = {"label": spec.label, "required": False, "help_text": helped}
    if spec.kind == "choice":
        choices = [("", f"as the preset has it ({default})" if default else "as the preset has it")]
        field: forms.Field = forms.ChoiceField(choices=choices + [(each, each) for each in spec.choices], **common)
    else:
        attrs = {"placeholder": default} | ({"inputmode": "decimal"} if spec.kind == "number" else {})
        field = forms.CharField(max_length=2000, widget=forms.TextInput(attrs=attrs), **common)
    field.unit = spec.unit  # type: ignore[attr-defined]  # shown beside the field
    return field


def _bounds(spec: FieldSpec) -> str:
    if spec.min is not None and spec.max is not None:
        return f"{spec.min:.10g} to {spec.max:.10g}"
    if spec.min is not None:
        return f"at least {spec.min:.10g}"
    return f"at most {spec.max:.10g}" if spec.max is not None else ""


def suggested_folder(target: Target, name: str) -> str:
    """A folder for a run of that name in the target's first root; what can't stand in a path becomes a dash."""
    root = target.roots[0] if target.roots else ""
    slug = slugify(name)[:60] or "run"
    return f"{root.rstrip('/')}/{slug}"
