"""A gate's form in words that a program can use: what is asked, of which kind, in which unit, within which bounds."""

from typing import Any

from django import forms

from gates.fields import Items, Number


def describe_form(form: forms.Form) -> list[dict[str, Any]]:
    """The form's fields in order: name, kind, label, help, required, initial, and what belongs to the kind.

    Kinds: text (max_length), number (unit, min, max, whole), choice and many (choices: value -> label), yes_no, items
    (items; verdicts: value -> label; keep, note: whether they are asked). An answer is a JSON value of that kind; for
    items a mapping item -> {"keep": bool, "verdict": value, "note": text}.
    """
    return [_describe(form, name, field) for name, field in form.fields.items()]


def _describe(form: forms.Form, name: str, field: forms.Field) -> dict[str, Any]:
    kind, details = _kind(field)
    return {
        "name": name,
        "kind": kind,
        "label": str(field.label or name.replace("_", " ").capitalize()),
        "help": str(field.help_text),
        "required": field.required,
        "initial": _plain(form.get_initial_for_field(field, name)),
        **details,
    }


def _kind(field: forms.Field) -> tuple[str, dict[str, Any]]:
    if isinstance(field, Items):
        asked = {"keep": field.keep, "note": field.note}
        return "items", {"items": field.items, "verdicts": field.verdicts, **asked}
    if isinstance(field, forms.MultipleChoiceField):
        return "many", {"choices": _choices(field)}
    if isinstance(field, forms.ChoiceField):
        return "choice", {"choices": _choices(field)}
    if isinstance(field, forms.IntegerField):  # the base of FloatField and DecimalField too
        whole = field.whole if isinstance(field, Number) else not isinstance(field, forms.FloatField)
        bounds = {"min": _plain(field.min_value), "max": _plain(field.max_value)}
        return "number", {"unit": getattr(field, "unit", ""), **bounds, "whole": whole}
    if isinstance(field, forms.BooleanField):
        return "yes_no", {}
    return "text", {"max_length": getattr(field, "max_length", None)}


def _choices(field: forms.ChoiceField) -> dict[str, str]:
    """Value -> label; grouped choices are laid flat, and the empty one of a page's select is left out."""
    flat: dict[str, str] = {}
    choices: Any = field.choices
    for value, label in choices:
        pairs = label if isinstance(label, list | tuple) else [(value, label)]
        flat.update({str(key): str(text) for key, text in pairs if key not in ("", None)})
    return flat


def _plain(value: Any) -> Any:
    """JSON values as they are; what is none (a date, a decimal) as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    return str(value)
