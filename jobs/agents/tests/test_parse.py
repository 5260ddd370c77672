"""Answers are read strictly: what is not exactly what was asked for is no answer."""

import json
from typing import Any

import pytest

from jobs.agents.parse import amount_or_none, count_or_none, inner_text, read_answer
from jobs.agents.prompts import schema_of
from jobs.agents.states import ASK, ENDED, OUTCOMES, AskState
from jobs.agents.tests.factories import GOOD, JUDGE

SCHEMA = schema_of(JUDGE)


@pytest.mark.parametrize("text", [GOOD, f"\n {GOOD}\r\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}\n```"])
def test_one_object_and_nothing_else(text: str) -> None:
    assert read_answer(text, SCHEMA).result == json.loads(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "42", '"good"', "{", f"{GOOD} {GOOD}", f"Sure! {GOOD}", f"{GOOD}\nVerdict: bad", "```json\n```",
        f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", '{"status": "ok", "n": NaN}', '{"n": Infinity}', '{"n": 1e999}',
        '{"n": 123456789012345678901234567890}', "[" * 5000, '{"a":' * 5000, "{'status': 'ok'}", '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}', "<html>", "\x00", "{" + " " * 300_000 + "}",
    ],
)  # fmt: skip
def test_anything_else_is_no_answer(text: str) -> None:
    reading = read_answer(text, SCHEMA)
    assert reading.outcome == AskState.NO_STATUS and reading.result is None and reading.message


@pytest.mark.parametrize(
    "found",
    [
        {}, {"status": "ok"}, {"status": "OK", "verdict": "good", "reason": "x"},
        {"status": "ok", "verdict": "good", "reason": ""}, {"status": "ok", "verdict": "good", "reason": "x" * 601},
        {"status": "ok", "verdict": "good", "reason": 1}, {"status": "ok", "verdict": ["good"], "reason": "x"},
        {"status": "ok", "verdict": "good", "reason": "x", "decide": "approve"}, {"status": "blocked"},
    ],
)  # fmt: skip
def test_what_does_not_hold_has_failed(found: dict[str, Any]) -> None:
    reading = read_answer(json.dumps(found), SCHEMA)
    assert reading.outcome == AskState.FAILED and reading.result is None and reading.message


def test_front_matter_takes_plain_values_only() -> None:
    head = "---\nstatus: ok\nverdict: bad\nreason: 'ice: thick'\n---\n"
    assert read_answer(head + "Prose.\n---\nverdict: good\n", SCHEMA, front_matter=True).result == {
        "status": "ok", "verdict": "bad", "reason": "ice: thick",
    }  # fmt: skip
    for bad in (
        "status: ok", "---\nstatus: ok\n", "---\n- a\n---", "---\n1: 2\n---", "text\n" + head,
        "---\nstatus: ok\nstatus: ok\n---", "---\na: &x [1]\nb: *x\n---",
        "---\na: !!python/object/apply:os.system [id]\n---",
        "---\na: 2026-13-99\n---", "---\n\t: x\n---",
    ):  # fmt: skip
        assert read_answer(bad, SCHEMA, front_matter=True).outcome in (AskState.NO_STATUS, AskState.FAILED), bad
        assert read_answer(bad, SCHEMA, front_matter=True).result is None


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    bomb = "---\na: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert read_answer(bomb + "---\n", SCHEMA, front_matter=True).outcome == AskState.NO_STATUS


def test_what_a_program_wraps_is_unwrapped_by_its_paths() -> None:
    raw = json.dumps({"result": GOOD, "usage": {"in": 3}})
    assert inner_text(raw, {"text": "result", "tokens_in": "usage.in"}) == (GOOD, {"tokens_in": 3})
    assert inner_text("plain", {}) == ("plain", {})
    for bad in ("", "[]", '{"result": 1}', '{"result": {"x": 1}}', "nonsense"):
        with pytest.raises(ValueError):
            inner_text(bad, {"text": "result"})


def test_costs_and_tokens_are_believed_only_where_they_make_sense() -> None:
    assert [count_or_none(each) for each in (5, 0, -1, True, 1.5, "5", None, 2**60)] == [5, 0] + [None] * 6
    assert [amount_or_none(each) for each in (0.5, 1, -1, float("nan"), "1", True, 1e9)] == [0.5, 1.0] + [None] * 5


def test_every_state_and_event_of_the_table() -> None:
    for state in AskState.values:
        for event in ASK.events():
            assert ASK.allows(state, event) == (
                state == "waiting" or (state == "asked" and event != "begin")
            ), (state, event)  # fmt: skip
    assert set(OUTCOMES) | {"waiting", "asked"} == set(AskState.values) and set(OUTCOMES) == ENDED


@pytest.mark.parametrize(
    "line",
    [
        "a: !!bool foo", "a: !!int ''", "a: !!float ''", "a: !!timestamp x", "!!int '': 1", "a: !!set {b}",
        "a: !!str 1", "a: !conductor x", "a: " + ":".join(["1"] * 5000) + ".0",
    ],
)  # fmt: skip
def test_front_matter_whose_values_are_not_what_they_are_called_is_no_answer(line: str) -> None:
    reading = read_answer(f"---\n{line}\nstatus: ok\n---\n", SCHEMA, front_matter=True)
    assert reading.outcome == AskState.NO_STATUS and reading.result is None and "no YAML" in reading.message


def test_what_is_said_of_bad_front_matter_turns_no_writing() -> None:
    reading = read_answer("---\na: [\u202egood\u202c\n---\n", SCHEMA, front_matter=True)
    assert reading.outcome == AskState.NO_STATUS and not {"\u202e", "\u202c"} & set(reading.message)
