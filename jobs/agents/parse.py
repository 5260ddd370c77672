"""What an agent wrote, read strictly. Pure: text in, a reading out; nothing of it is ever run, rendered or believed.

JSON: the whole text is one object (one code fence around all of it is taken off). Front matter: the text begins with a
line `---`, then YAML of plain values, then a line `---`; what comes after is prose and is not read. Names must not
repeat, numbers must be finite, and the object must hold against the schema.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from jobs.agents.prompts import BLOCKED_SCHEMA, STATUS_BLOCKED
from jobs.agents.states import AskState
from jobs.logs import clean
from record.shape import problems

MAX_ANSWER_CHARACTERS = 200_000
MAX_DEPTH = 12
_FENCE = re.compile(r"\A```[A-Za-z]*[ \t]*\n(.*)\n```\Z", re.DOTALL)
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Reading:
    """How an answer was read: an outcome, what to say of it, and the result where the outcome is ok."""

    outcome: str
    message: str = ""
    result: dict[str, Any] | None = None


class Unreadable(ValueError):
    """The text is no answer at all."""


def read_answer(text: str, schema: Mapping[str, Any], *, front_matter: bool = False) -> Reading:
    """Read `text` against `schema`: ok, blocked, failed (an object that doesn't hold) or no_status (no object)."""
    try:
        found = _object(text, front_matter)
    except Unreadable as error:
        return Reading(AskState.NO_STATUS, f"Its answer can't be read: {error}.")
    if found.get("status") == STATUS_BLOCKED:
        problem = _problem(found, BLOCKED_SCHEMA)
        return (
            Reading(AskState.FAILED, problem) if problem else Reading(AskState.BLOCKED, found["reason"].strip()[:900])
        )
    if problem := _problem(found, schema):
        return Reading(AskState.FAILED, problem)
    return Reading(AskState.OK, "", found)


def inner_text(raw: str, envelope: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """(the answer's text, what else is told) of a program that wraps its answer in JSON of its own.

    `envelope` is what -> path of names with dots: text, model, cost_usd, tokens_in, tokens_out. Without an envelope the
    output is the answer. Unreadable where the text isn't where it should be.
    """
    if not envelope:
        return raw, {}
    told = _json_object(raw.strip())
    found = {what: _at(told, path) for what, path in envelope.items()}
    text = found.pop("text", None)
    if not isinstance(text, str):
        raise Unreadable(f"there is no text under {envelope.get('text')!r} in what the program wrote")
    return text, found


def count_or_none(value: Any) -> int | None:
    """A number of tokens, if it is one."""
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if ok else None


def amount_or_none(value: Any) -> float | None:
    """An amount of money, if it is one that can be kept."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e6
    return float(value) if ok else None


def _object(text: str, front_matter: bool) -> dict[str, Any]:
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise Unreadable("it is empty")
    if front_matter:
        head = _FRONT.match(text)
        if head is None:
            raise Unreadable("it doesn't begin with front matter between two lines ---")
        found = _yaml_object(_bounded(head[1]))
    else:
        fenced = _FENCE.match(text)
        found = _json_object(_bounded(fenced[1] if fenced else text))
    return {clean(name.encode("utf-8", "replace")): _plain(value, 1) for name, value in found.items()}


def _bounded(text: str) -> str:
    if len(text) > MAX_ANSWER_CHARACTERS:
        raise Unreadable(f"it has {len(text)} characters, and {MAX_ANSWER_CHARACTERS} is the most that is read")
    return text


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"it is no JSON text ({error})") from None
    if not isinstance(found, dict):
        raise Unreadable("it is JSON, but no object")
    return found


def _yaml_object(text: str) -> dict[str, Any]:
    try:
        found = yaml.load(text, Loader=_Plain)  # noqa: S506 - a SafeLoader that takes even less
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError, ArithmeticError) as error:
        told = clean(" ".join(str(error).split()).encode("utf-8", "replace"))
        raise Unreadable(f"its front matter is no YAML ({told[:200]})") from None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise Unreadable("its front matter holds no names and values")
    return found


class _Plain(yaml.SafeLoader):
    """YAML with each name once, without anchors and aliases (a few lines of which can stand for gigabytes) and tags.

    A tag names a type that the value then need not have (`!!int ''`), which PyYAML meets with any exception there is.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.YAMLError("anchors and aliases are not taken")
        if getattr(event, "tag", None):
            raise yaml.YAMLError("tags are not taken")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(set(map(str, names))) != len(names):
            raise yaml.YAMLError("a name stands there twice")
        return super().construct_mapping(node, deep)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable("a name stands in it twice")
    return found


def _no_constant(name: str) -> Any:
    raise Unreadable(f"it holds {name}, which is no number")


def _plain(value: Any, depth: int) -> Any:
    """A value as it can be kept and shown: texts without control characters; nothing but what JSON knows."""
    if depth > MAX_DEPTH:
        raise Unreadable("it is nested too deeply")
    if isinstance(value, str):
        return clean(value.encode("utf-8", "replace"))
    if isinstance(value, float) and not math.isfinite(value):
        raise Unreadable("it holds a number that is not finite")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        raise Unreadable("it holds a number that is too large to be kept exactly")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {clean(str(name).encode("utf-8", "replace")): _plain(each, depth + 1) for name, each in value.items()}
    return str(value)  # a date of YAML's


def _problem(found: dict[str, Any], schema: Mapping[str, Any]) -> str:
    """What stands against the object, in words; empty where it holds."""
    errors = problems(found, schema)
    if not errors:
        return ""
    where = ".".join(map(str, errors[0].path)) or "the whole"
    return f"Its answer doesn't hold, at {where}: {errors[0].message[:300]}."


def _at(found: Any, path: str) -> Any:
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
