"""Form fields for answers: the same for a page's flat form data and for a program's JSON values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from gates.answers import unprintable

MAX_NOTE_CHARACTERS = 1000
GOOD, SUSPECT, BAD = "good", "suspect", "bad"
VERDICT_CHOICES = {GOOD: "good", SUSPECT: "suspect", BAD: "bad"}


class PlainText(forms.CharField):
    """A text; values of another kind, control characters and halves of characters are refused."""

    def to_python(self, value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ValidationError("Write a text here.")
        if value and unprintable(value):
            raise ValidationError("This text holds control characters; write it as plain text.")
        return super().to_python(value)


class Number(forms.FloatField):
    """A finite number with a unit, within bounds. `unit` is shown beside it; the value is in that unit."""

    def __init__(self, *, unit: str = "", whole: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.unit = unit
        self.whole = whole
        if unit:
            self.widget.attrs["data-unit"] = unit

    def to_python(self, value: Any) -> Any:
        if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        number = super().to_python(value)
        if number is not None and math.isfinite(number) and self.whole:
            if number != int(number):
                raise ValidationError("Give a whole number.")
            return int(number)
        return number


class ItemsWidget(forms.Widget):
    """A table with a row an item: keep it or not, a verdict, a note.

    Reads `NAME-0-item`, `NAME-0-keep`, `NAME-0-verdict`, `NAME-0-note` … as a page posts them, or NAME as a mapping
    item -> {"keep", "verdict", "note"} as a program sends it.
    """

    template_name = "gates/widgets/items.html"

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        self.items: Sequence[str] = ()
        self.verdicts: Mapping[str, str] = {}
        self.has_keep = self.has_note = True
        self.suggested: Mapping[str, Any] = {}
        self.advice: Mapping[str, Any] = {}  # item -> what agents say of it; set by the page that shows it

    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> Any:
        if name in data:
            return data[name]
        rows = {index: data.get(f"{name}-{index}-item") for index in range(len(self.items))}
        if all(item is None for item in rows.values()):
            return None
        return {str(item): self._row(data, f"{name}-{index}") for index, item in rows.items() if item is not None}

    def value_omitted_from_data(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return name not in data and f"{name}-0-item" not in data

    def _row(self, data: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        row: dict[str, Any] = {}
        if self.has_keep:
            row["keep"] = data.get(f"{prefix}-keep") in ("on", "true", "True", "1", True)
        if self.verdicts:
            row["verdict"] = data.get(f"{prefix}-verdict", "")
        if self.has_note:
            row["note"] = data.get(f"{prefix}-note", "")
        return row

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        given = value if isinstance(value, Mapping) else {}
        context["widget"] |= {
            "rows": [self._shown(item, given.get(item)) for item in self.items],
            "verdicts": list(self.verdicts.items()),
            "has_keep": self.has_keep,
            "has_note": self.has_note,
            "max_note": MAX_NOTE_CHARACTERS,
        }
        return context

    def _shown(self, item: str, row: Any) -> dict[str, Any]:
        row = row if isinstance(row, Mapping) else {}
        suggested = self.suggested.get(item)
        suggested = suggested if isinstance(suggested, Mapping) else {}
        return {
            "item": item,
            "keep": bool(row.get("keep", True)),
            "verdict": row.get("verdict", ""),
            "note": row.get("note", ""),
            "suggested": suggested.get("verdict", ""),
            "why": suggested.get("reason", ""),
            "advice": self.advice.get(item, ()),
        }


class Items(forms.Field):
    """A judgement of each of several items: item -> {"keep": bool, "verdict": one of `verdicts`, "note": text}.

    `items` are all the rows there are, in order; an answer that leaves one out is refused, so that nothing is passed
    over in silence. With no `verdicts` there is no such column, likewise `keep` and `note`. `suggested` is
    item -> {"verdict", "reason"}, shown beside each row.
    """

    widget = ItemsWidget

    def __init__(
        self,
        *,
        items: Sequence[str],
        verdicts: Mapping[str, str] | None = None,
        keep: bool = True,
        note: bool = True,
        suggested: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.items = list(items)
        self.verdicts = dict(VERDICT_CHOICES if verdicts is None else verdicts)
        self.keep, self.note = keep, note
        self.widget.items, self.widget.verdicts = self.items, self.verdicts
        self.widget.has_keep, self.widget.has_note = keep, note
        self.widget.suggested = suggested or {}

    def to_python(self, value: Any) -> dict[str, dict[str, Any]]:
        if value in self.empty_values:
            return {}
        if not isinstance(value, Mapping):
            raise ValidationError("Give a judgement for each item: item -> {keep, verdict, note}.")
        unknown = [str(item)[:60] for item in value if item not in self.items]
        if unknown:
            raise ValidationError(f"There is no item {', '.join(unknown[:5])} at this gate.")
        return {item: self._row(item, value[item]) for item in self.items if item in value}

    def validate(self, value: dict[str, dict[str, Any]]) -> None:
        missing = [item for item in self.items if item not in value]
        if missing and (self.required or value):
            raise ValidationError(f"No judgement was given for {', '.join(missing[:5])}.")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or {}) != (data or {})

    def _row(self, item: str, row: Any) -> dict[str, Any]:
        if not isinstance(row, Mapping):
            raise ValidationError(f"{item}: give keep, verdict and note.")
        cleaned: dict[str, Any] = {}
        if self.verdicts:
            cleaned["verdict"] = self._verdict(item, row.get("verdict"))
        if self.keep:
            cleaned["keep"] = self._keep(item, row.get("keep", cleaned.get("verdict") != BAD))
        if self.note:
            cleaned["note"] = self._note(item, row.get("note", ""))
        return cleaned

    def _verdict(self, item: str, value: Any) -> str:
        if not isinstance(value, str) or value not in self.verdicts:
            raise ValidationError(f"{item}: choose one of {', '.join(self.verdicts)}.")
        return value

    def _keep(self, item: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError(f"{item}: keep is true or false.")
        return value

    def _note(self, item: str, value: Any) -> str:
        if not isinstance(value, str) or unprintable(value):
            raise ValidationError(f"{item}: write the note as plain text.")
        if len(value) > MAX_NOTE_CHARACTERS:
            raise ValidationError(f"{item}: keep the note within {MAX_NOTE_CHARACTERS} characters.")
        return value.strip()
