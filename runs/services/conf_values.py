"""Checks the values that a run gives its conf files against the overlay's description."""

import math
import re
from collections.abc import Mapping

from record.errors import BadInput
from runs.conf.files import check_value
from runs.conf.numbers import is_number
from runs.pipeline.spec import FieldSpec, PipelineSpec

RESERVED = frozenset({"WORK_DIR"})
_WHOLE = re.compile(r"-?[0-9]+")
_IN_SHELL = set("\"'`$;&|<>*?(){}[]!\\ \t")


def check_conf(spec: PipelineSpec, values: Mapping[str, object]) -> dict[str, str]:
    """Values of pipeline.conf as text; BadInput that names every one that can't be used (`extra["fields"]`)."""
    return _check(spec, values, known=set(spec.defaults), where="pipeline.conf", of_species=False)


def check_species_conf(spec: PipelineSpec, label: str, values: Mapping[str, object]) -> dict[str, str]:
    """Values of one species' conf as text; BadInput that names every one that can't be used."""
    known = set(spec.species.get(label) or spec.species_template or {})
    return _check(spec, values, known=known, where=f"the conf of species {label}", of_species=True)


def own_of(values: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The values that differ from the pipeline's."""
    return {key: value for key, value in values.items() if defaults.get(key) != value}


def _check(
    spec: PipelineSpec, values: Mapping[str, object], *, known: set[str], where: str, of_species: bool
) -> dict[str, str]:
    checked: dict[str, str] = {}
    faults: dict[str, str] = {}
    for key, value in values.items():
        try:
            if key in RESERVED or (of_species and key == "TM_LABEL"):
                raise BadInput(f"{key} is set by the run itself.")
            if key not in known:
                raise BadInput(f"{key} is not a value of {where}.")
            text = check_value(key, "" if value is None else _text(value))
            checked[key] = check_field(spec.field_by_key[key], text) if key in spec.field_by_key else text
        except BadInput as error:
            faults[key] = error.message
    if faults:
        raise BadInput(" ".join(faults.values()), code="bad_conf", extra={"fields": faults})
    return checked


def check_field(field: FieldSpec, text: str) -> str:
    """The text of one value where it is what the overlay asks for; BadInput else, with the unit and bounds."""
    if field.kind == "number":
        return _check_number(field, text)
    if field.kind == "choice" and text not in field.choices:
        raise BadInput(f"{field.label} ({field.key}) is {text!r}; choose one of {', '.join(field.choices)}.")
    if field.kind == "path" and text:
        _check_path(field, text)
    return text


def _check_number(field: FieldSpec, text: str) -> str:
    """The number as scripts and people write it: 1_0 and digits of other scripts are Python's own, 1e1 is no count."""
    unit = f" {field.unit}" if field.unit else ""
    if not is_number(text) and text.lower().lstrip("+-") not in {"nan", "inf", "infinity"}:
        raise BadInput(f"{field.label} ({field.key}) is {text!r}, which is not a number.")
    number = float(text)
    if not math.isfinite(number):
        raise BadInput(f"{field.label} ({field.key}) is {text!r}, which is not a finite number.")
    if field.whole and number != int(number):
        raise BadInput(f"{field.label} ({field.key}) is {text}; it must be a whole number.")
    if field.whole and not _WHOLE.fullmatch(text):
        text = str(int(number))
    if field.min is not None and number < field.min:
        raise BadInput(f"{field.label} ({field.key}) is {text}{unit}; at least {field.min:g}{unit} is needed.")
    if field.max is not None and number > field.max:
        raise BadInput(f"{field.label} ({field.key}) is {text}{unit}; at most {field.max:g}{unit} is possible.")
    return text


def _check_path(field: FieldSpec, text: str) -> None:
    if not text.startswith("/"):
        raise BadInput(f"{field.label} ({field.key}) is {text!r}; give an absolute path.")
    if ".." in text.split("/"):
        raise BadInput(f"{field.label} ({field.key}) has `..` in it; write where it leads instead.")
    if odd := sorted(_IN_SHELL & set(text)):
        raise BadInput(f"{field.label} ({field.key}) holds {odd[0]!r}, which the pipeline's scripts would trip over.")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return f"{value:.10g}"
    return str(value)
