"""The protocol that a pipeline describes in its YAML: fields of five kinds, checked against a schema.

    options:
      intro: What to look at, in a sentence.
      consequence: What approving does, in a sentence.
      commands: [[slices, rec/TS_001.mrc]]                      # what makes its evidence, run by the subject's keeper
      additions: true                                          # people and agents may add evidence; default false
      verdicts: {approve: Go on, send_back: Do it again}       # labels; default approve, send_back and reject
      fields:
        - {name: threshold, kind: number, label: Threshold, unit: Å, min: 0, max: 10, default: 2.5}
        - {name: remark, kind: text, label: Remark, required: false, lines: 4}
        - {name: method, kind: choice, label: Method, choices: [fast, careful], default: careful}
        - {name: bands, kind: many, label: Bands, choices: {low: Low, high: High}, at_least: 1}
        - {name: series, kind: items, label: Tilt series, items: evidence}    # or a list of names

A field's `default` is what the gate suggests. `items: evidence` means the items that the evidence speaks of.
"""

from collections.abc import Mapping
from typing import Any

from django import forms

from gates.fields import BAD, GOOD, SUSPECT, VERDICT_CHOICES, Items, Number, PlainText
from gates.models import Gate
from gates.protocols import RESERVED, VERDICTS, Defaults, Preparation, Verdict
from gates.subjects import preparation_for
from record.errors import BadInput
from record.shape import problems

FROM_EVIDENCE = "evidence"
NEUTRAL = Verdict("", "", needs_reason=False, needs_answers=True)

_LABEL = {"type": "string", "minLength": 1, "maxLength": 200}
_TEXT = {"type": "string", "maxLength": 2000}
_COMMON: dict[str, Any] = {
    "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,39}$"},
    "label": _LABEL,
    "help": _TEXT,
    "required": {"type": "boolean"},
}
_CHOICES = {
    "oneOf": [
        {"type": "array", "items": _LABEL, "minItems": 1, "maxItems": 200, "uniqueItems": True},
        {"type": "object", "additionalProperties": _LABEL, "minProperties": 1, "maxProperties": 200},
    ]
}
_NAMES = {"type": "array", "items": _LABEL, "minItems": 1, "maxItems": 2000, "uniqueItems": True}

_KINDS: dict[str, dict[str, Any]] = {
    "text": {
        "default": _TEXT,
        "lines": {"type": "integer", "minimum": 1, "maximum": 40},
        "max_length": {"type": "integer", "minimum": 1, "maximum": 10_000},
    },
    "number": {
        "default": {"type": "number"},
        "unit": {"type": "string", "maxLength": 20},
        "min": {"type": "number"},
        "max": {"type": "number"},
        "whole": {"type": "boolean"},
    },
    "choice": {"default": {"type": "string"}, "choices": _CHOICES},
    "many": {
        "default": {"type": "array", "items": {"type": "string"}},
        "choices": _CHOICES,
        "at_least": {"type": "integer", "minimum": 0},
        "at_most": {"type": "integer", "minimum": 1},
    },
    "items": {
        "items": {"oneOf": [{"const": FROM_EVIDENCE}, _NAMES]},
        "verdicts": _CHOICES,
        "keep": {"type": "boolean"},
        "note": {"type": "boolean"},
    },
}
_REQUIRED = {"choice": ["choices"], "many": ["choices"], "items": ["items"]}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "intro": _TEXT,
        "consequence": _TEXT,
        "additions": {"type": "boolean"},
        "commands": {
            "type": "array",
            "maxItems": 40,
            "items": {
                "type": "array",
                "minItems": 1,
                "maxItems": 400,
                "items": {"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^\\x00-\\x1f\\x7f]+$"},
            },
        },
        "verdicts": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 8,
            "propertyNames": {"pattern": "^[a-z][a-z_]{0,39}$"},
            "additionalProperties": _LABEL,
        },
        "fields": {"type": "array", "maxItems": 60, "items": {"type": "object", "required": ["name", "kind"]}},
    },
}


def _field_schema(kind: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "kind", *_REQUIRED.get(kind, [])],
        "properties": _COMMON | {"kind": {"const": kind}} | _KINDS[kind],
    }


_FIELDS = {kind: _field_schema(kind) for kind in _KINDS}


def faults(options: dict[str, Any]) -> list[str]:
    """What is wrong with a generic gate's options, in words; empty where a form can be made of them."""
    found = [f"{'.'.join(map(str, e.path)) or 'options'}: {e.message}"[:300] for e in problems(options, SCHEMA)]
    if found:
        return found
    seen: set[str] = set()
    for field in options.get("fields", []):
        found += [f"field {field['name']}: {text}" for text in _field_faults(field, seen)]
    return found


def _field_faults(field: dict[str, Any], seen: set[str]) -> list[str]:
    kind = field["kind"]
    if not isinstance(kind, str) or kind not in _FIELDS:
        return [f"there is no kind {kind!r}; choose one of {', '.join(_FIELDS)}"]
    found = [f"{'.'.join(map(str, e.path))} {e.message}".strip()[:300] for e in problems(field, _FIELDS[kind])]
    if found:
        return found
    if field["name"] in seen:
        found.append("there are two of this name")
    if field["name"] in RESERVED:
        found.append("this name is taken; choose another")
    seen.add(field["name"])
    return found + _contradictions(field)


def _contradictions(field: dict[str, Any]) -> list[str]:
    found = []
    low, high = field.get("min"), field.get("max")
    if low is not None and high is not None and low > high:
        found.append(f"min {low} is above max {high}")
    if field.get("at_least", 0) > field.get("at_most", 10_000):
        found.append("at_least is above at_most")
    if "default" in field and not found:
        try:
            _make(field, [], {}).clean(field["default"])
        except forms.ValidationError as error:
            found.append(f"default: {error.messages[0]}")
    return found


class Generic(Defaults):
    """Asks what its options describe, and writes nothing back: what comes after reads the decision's answers."""

    key = "generic"
    title = "Questions"

    def verdicts_at(self, gate: Gate) -> dict[str, Verdict]:
        labels = gate.options.get("verdicts")
        if not labels:
            return VERDICTS
        return {key: _labelled(VERDICTS.get(key, NEUTRAL), label) for key, label in labels.items()}

    def intro(self, gate: Gate) -> str:
        return str(gate.options.get("intro", ""))

    def plan(self, gate: Gate) -> Preparation | None:
        _checked(gate.options)
        commands = gate.options.get("commands")
        return preparation_for(gate, commands) if commands else None

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        fields = _checked(gate.options)
        suggested = {field["name"]: field["default"] for field in fields if "default" in field}
        return suggested | {field["name"]: _all_good(field, gate) for field in fields if _suggests_items(field)}

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        fields = {field["name"]: _make(field, _items(field, gate), gate.suggestion) for field in _checked(gate.options)}
        made = type("GenericForm", (forms.Form,), fields)
        return made(data, initial=gate.suggestion)

    def consequence(self, gate: Gate, answers: dict[str, Any]) -> str:
        return str(gate.options.get("consequence", ""))

    def takes_additions(self, gate: Gate) -> bool:
        return bool(gate.options.get("additions", False))

    def faults(self, options: dict[str, Any]) -> list[str]:
        return faults(options)


PROTOCOL = Generic()


def _checked(options: dict[str, Any]) -> list[dict[str, Any]]:
    found = faults(options)
    if found:
        raise BadInput(f"The gate's questions can't be shown: {'; '.join(found[:5])}.", code="bad_options")
    return list(options.get("fields", []))


def _labelled(verdict: Verdict, label: str) -> Verdict:
    return Verdict(label, verdict.consequence, verdict.needs_reason, verdict.needs_answers)


def _items(field: dict[str, Any], gate: Gate) -> list[str]:
    if field["kind"] != "items":
        return []
    if field["items"] == FROM_EVIDENCE:
        spoken_of = gate.evidence.exclude(item="").order_by("item")
        return list(spoken_of.values_list("item", flat=True).distinct())
    return list(field["items"])


def _suggests_items(field: dict[str, Any]) -> bool:
    return field["kind"] == "items" and "verdicts" not in field


def _all_good(field: dict[str, Any], gate: Gate) -> dict[str, Any]:
    return {
        item: {"verdict": GOOD} | ({"keep": True} if field.get("keep", True) else {}) for item in _items(field, gate)
    }


def _make(field: dict[str, Any], items: list[str], suggestion: Mapping[str, Any]) -> forms.Field:
    common = {
        "label": field.get("label") or field["name"].replace("_", " ").capitalize(),
        "help_text": field.get("help", ""),
        "required": field.get("required", True),
    }
    return _MAKERS[field["kind"]](field, common, items, suggestion)


def _text(field: dict[str, Any], common: dict[str, Any], *_: Any) -> forms.Field:
    lines = field.get("lines", 1)
    widget = forms.Textarea(attrs={"rows": lines}) if lines > 1 else forms.TextInput()
    return PlainText(max_length=field.get("max_length", 2000), widget=widget, **common)


def _number(field: dict[str, Any], common: dict[str, Any], *_: Any) -> forms.Field:
    return Number(
        unit=field.get("unit", ""),
        whole=field.get("whole", False),
        min_value=field.get("min"),
        max_value=field.get("max"),
        **common,
    )


def _choice(field: dict[str, Any], common: dict[str, Any], *_: Any) -> forms.Field:
    return forms.ChoiceField(choices=list(_choices(field["choices"]).items()), **common)


def _many(field: dict[str, Any], common: dict[str, Any], *_: Any) -> forms.Field:
    choices = list(_choices(field["choices"]).items())
    many = forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **common)
    many.validators.append(_Count(field.get("at_least", 0), field.get("at_most", len(choices))))
    return many


def _table(
    field: dict[str, Any], common: dict[str, Any], items: list[str], suggestion: Mapping[str, Any]
) -> forms.Field:
    verdicts = (
        _choices(field["verdicts"]) if "verdicts" in field else {k: VERDICT_CHOICES[k] for k in (GOOD, SUSPECT, BAD)}
    )
    suggested = suggestion.get("items") or suggestion.get(field["name"]) or {}
    return Items(
        items=items,
        verdicts=verdicts,
        keep=field.get("keep", True),
        note=field.get("note", True),
        suggested=suggested if isinstance(suggested, Mapping) else {},
        **common,
    )


_MAKERS: dict[str, Any] = {"text": _text, "number": _number, "choice": _choice, "many": _many, "items": _table}


def _choices(given: list[str] | dict[str, str]) -> dict[str, str]:
    return dict(given) if isinstance(given, dict) else {value: value for value in given}


class _Count:
    """Refuses fewer or more chosen values than are wanted."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def __call__(self, value: list[str]) -> None:
        if len(value) < self.least:
            raise forms.ValidationError(f"Choose at least {self.least}.")
        if len(value) > self.most:
            raise forms.ValidationError(f"Choose {self.most} at most.")
