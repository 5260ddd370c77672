"""Before the first phase: are the values right? The form is made of the overlay's `conf`, with units and bounds."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gates.fields import Number, PlainText
from gates.models import Gate
from gates.protocols import APPROVE, SEND_BACK, VERDICTS, Verdict
from record.errors import BadInput
from record.models import Decision
from runs.checkpoints.base import Checkpoint, author_of, number_or_none, phase_of, spec_of_gate
from runs.models import Phase, Run, Species
from runs.pipeline.spec import FieldSpec, PipelineSpec
from runs.preflight.findings import BLOCKS, MISSING, Finding
from runs.services.conf_values import check_field
from runs.services.preflight import last_findings
from runs.services.settings import set_conf
from runs.services.values import resolved_values, species_defaults

LINK = "__"  # between a species' label and the name of its value, in the form
BLOCKED, GO_ON = "in-the-way", "go-on"  # no species can be called so


class Setup(Checkpoint):
    """Shows the run's values as they are, and writes back those that are changed."""

    key = "setup"
    title = "Settings"
    # Nothing lies before it, so there is nothing to send back to.
    verdicts = {key: verdict for key, verdict in VERDICTS.items() if key != SEND_BACK} | {
        APPROVE: Verdict("Approve", "These values are written, and the work begins.")
    }

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        """The values as the run has them now."""
        phase = phase_of(gate)
        return {name: _shown(field, value) for name, field, value, _ in _values(phase, spec_of_gate(gate))}

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        phase = phase_of(gate)
        spec = spec_of_gate(gate)
        fields = {name: _form_field(field, label) for name, field, _, label in _values(phase, spec)}
        fields |= questions(spec, last_findings(phase.run), fields, _preflight_url(phase.run))
        made = type("SetupForm", (forms.Form,), fields)
        form: forms.Form = made(data, initial=gate.suggestion)
        return form

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        changed = [name.replace(LINK, " ") for name, value in answers.items() if gate.suggestion.get(name) != value]
        if not changed:
            return "Begins with the values as they are."
        return f"Changes {', '.join(changed)}, and begins."

    def write_back(self, gate: Gate, decision: Decision) -> None:
        """Write the approved values to the run and its species."""
        run = phase_of(gate).run
        answers, author = decision.statement.answers, author_of(decision)
        own = {name: value for name, value in answers.items() if LINK not in name}
        set_conf(run=run, values=own, author=author, reason=decision.statement.reason, decision=decision)
        for species in run.species.taking_part():
            start = f"{species.label}{LINK}"
            values = {name[len(start) :]: value for name, value in answers.items() if name.startswith(start)}
            set_conf(
                run=run,
                species=species,
                values=values,
                author=author,
                reason=decision.statement.reason,
                decision=decision,
            )


def _values(phase: Phase, spec: PipelineSpec) -> list[tuple[str, FieldSpec, str, str]]:
    """(name in the form, field, value now, label) of every value that the overlay describes."""
    rows: list[tuple[str, FieldSpec, str, str]] = []
    own = resolved_values(spec, phase.run, None)
    for field in spec.fields:
        if not field.species:
            rows.append((field.key, field, own.get(field.key, ""), field.label))
    for species in phase.run.species.taking_part():
        rows += _species_values(phase, spec, species)
    return rows


def _species_values(phase: Phase, spec: PipelineSpec, species: Species) -> list[tuple[str, FieldSpec, str, str]]:
    known = species_defaults(spec, species.label)
    values = resolved_values(spec, phase.run, species)
    return [
        (f"{species.label}{LINK}{field.key}", field, values.get(field.key, ""), f"{species.label}: {field.label}")
        for field in spec.fields
        if field.species and field.key in known
    ]


def _shown(field: FieldSpec, value: str) -> Any:
    number = number_or_none(value) if field.kind == "number" else None
    if number is None:
        return value
    return int(number) if field.whole and number == int(number) else number


def _form_field(field: FieldSpec, label: str) -> forms.Field:
    common: dict[str, Any] = {"label": label, "help_text": field.help}
    if field.kind == "number":
        return Number(unit=field.unit, whole=field.whole, min_value=field.min, max_value=field.max, **common)
    if field.kind == "choice":
        return forms.ChoiceField(choices=[(each, each) for each in field.choices], **common)
    return PlainText(required=False, max_length=1000, validators=[_Allowed(field)], **common)


def questions(
    spec: PipelineSpec, findings: list[Finding], fields: Mapping[str, forms.Field], url: str = ""
) -> dict[str, forms.Field]:
    """Fields that the last look at the target adds: where something is that is missing, and what stands in the way."""
    asked: dict[str, forms.Field] = {}
    for each in findings:
        if each.status == BLOCKS:
            asked[f"{BLOCKED}{LINK}{each.key}"] = Blocked(each, url)
        elif each.status == MISSING and each.asks in fields:
            fields[each.asks].help_text = f"{each.message} {each.remedy}".strip()
            fields[each.asks].required = True
        elif each.status == MISSING and each.asks in spec.defaults:
            asked.setdefault(each.asks, PlainText(label=each.asks, max_length=1000, help_text=_told(each)))
        elif each.status == MISSING:
            asked[f"{GO_ON}{LINK}{each.key}"] = forms.BooleanField(label="Go on all the same", help_text=_told(each))
    return asked


def _told(finding: Finding) -> str:
    return f"{finding.message} {finding.remedy}".strip()


def _preflight_url(run: Run) -> str:
    try:
        return reverse("runs:preflight", args=[run.pk])
    except NoReverseMatch:
        return ""


class Note(forms.Widget):
    """Shows a sentence where a field would be; nothing can be put in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        return format_html('<p class="note note-error" id="{}">{}</p>', (attrs or {}).get("id", ""), self.text)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> bool:
        return False


class Blocked(forms.BooleanField):
    """What stands in the way of an approval, with its remedy; another look at the target takes it away, no answer does.

    A verdict that needs no answers (see gates.services.statements) is not held up by it.
    """

    def __init__(self, finding: Finding, url: str) -> None:
        again = format_html('Then <a href="{}">look again</a>.', url) if url else "Then look again."
        told = format_html("{} {}", finding.remedy, again)
        super().__init__(label=f"In the way: {finding.label}", help_text=told, widget=Note(finding.message))
        self.finding = finding

    def validate(self, value: Any) -> None:
        if self.required:
            raise ValidationError(f"{self.finding.message} {self.finding.remedy} Then look again at the target.")


class _Allowed:
    """The same check as for values that come in by any other door."""

    def __init__(self, field: FieldSpec) -> None:
        self.field = field

    def __call__(self, value: str) -> None:
        try:
            check_field(self.field, value)
        except BadInput as error:
            raise ValidationError(error.message) from error


PROTOCOL = Setup()
