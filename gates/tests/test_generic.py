"""A gate described in YAML: its form takes a page's fields and a program's JSON alike."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.http import QueryDict
from django.test import Client

from gates.errors import InvalidAnswers, ReasonOwed
from gates.generic import PROTOCOL, faults
from gates.models import Evidence, Gate
from gates.protocols import Preparation
from gates.tests.doubles import Keeper, answer, ask
from jobs.models import Job, Target
from jobs.services import Resources
from record.models import Lab
from record.tests.factories import People

OPTIONS = yaml.safe_load("""
intro: Look at the slices.
consequence: The picks above the threshold are extracted.
fields:
  - {name: threshold, kind: number, label: Threshold, unit: Å, min: 0, max: 10, default: 2.5}
  - {name: classes, kind: number, whole: true, min: 1, required: false}
  - {name: remark, kind: text, required: false, lines: 4, max_length: 50}
  - {name: method, kind: choice, choices: [fast, careful], default: careful}
  - {name: bands, kind: many, choices: {low: Low, high: High, all: All}, at_least: 1, at_most: 2, default: [low]}
  - {name: series, kind: items, label: Tilt series, items: [TS_001, "<b>TS_2</b>"]}
""")
ROWS = {"TS_001": {"verdict": "good", "keep": True, "note": ""}, "<b>TS_2</b>": {"verdict": "good"}}
GOOD: dict[str, Any] = {"threshold": 2.5, "method": "careful", "bands": ["low"], "series": ROWS}


@pytest.fixture
def gate(lab: Lab) -> Gate:
    return ask(lab, protocol="generic", options=OPTIONS)


def test_json_answers(gate: Gate, people: People) -> None:
    given = answer(gate, people.reviewer, answers=GOOD).decision.statement.answers

    assert given == {
        "threshold": 2.5,
        "classes": None,
        "remark": "",
        "method": "careful",
        "bands": ["low"],
        "series": {
            "TS_001": {"verdict": "good", "keep": True, "note": ""},
            "<b>TS_2</b>": {"verdict": "good", "keep": True, "note": ""},
        },
    }


def test_the_fields_of_a_page(gate: Gate, people: People) -> None:
    posted = QueryDict(mutable=True)
    posted.update({"threshold": "2.50", "classes": "3", "remark": "fine", "method": "fast"})
    posted.setlist("bands", ["low", "high"])
    posted.update({"series-0-item": "TS_001", "series-0-keep": "on", "series-0-verdict": "good", "series-0-note": "ok"})
    posted.update({"series-1-item": "<b>TS_2</b>", "series-1-verdict": "bad", "series-1-note": "drift"})

    given = answer(gate, people.reviewer, answers=posted, reason="As I see it.").decision.statement.answers

    assert (given["threshold"], given["classes"], given["bands"]) == (2.5, 3, ["low", "high"])
    assert given["series"]["<b>TS_2</b>"] == {"verdict": "bad", "keep": False, "note": "drift"}
    assert given["series"]["TS_001"] == {"verdict": "good", "keep": True, "note": "ok"}


def test_a_note_is_no_difference_but_a_verdict_is(gate: Gate, people: People) -> None:
    noted = GOOD | {"series": ROWS | {"TS_001": {"verdict": "good", "note": "a little drift"}}}
    other = GOOD | {"series": ROWS | {"TS_001": {"verdict": "bad"}}}

    with pytest.raises(ReasonOwed) as refused:
        answer(gate, people.reviewer, answers=other)
    assert refused.value.extra["differing"] == ["series.TS_001.verdict", "series.TS_001.keep"]
    assert answer(gate, people.reviewer, answers=noted).decision


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 10.1),
        ("threshold", -1),
        ("threshold", "NaN"),
        ("threshold", "inf"),
        ("threshold", "1e999"),
        ("threshold", True),
        ("threshold", "1_0"),
        ("threshold", {}),
        ("classes", 1.5),
        ("classes", 0),
        ("remark", ["a"]),
        ("remark", 7),
        ("remark", "x" * 51),
        ("remark", "a\x00"),
        ("remark", "\udc80"),
        ("method", "slow"),
        ("method", ["fast"]),
        ("bands", []),
        ("bands", "low"),
        ("bands", ["low", "low2"]),
        ("bands", ["low", "high", "all"]),
        ("series", []),
        ("series", "TS_001"),
        ("series", {"TS_001": {"verdict": "good"}}),
        ("series", ROWS | {"TS_9": {"verdict": "good"}}),
        ("series", ROWS | {"TS_001": {"verdict": "splendid"}}),
        ("series", ROWS | {"TS_001": {"verdict": ["good"]}}),
        ("series", ROWS | {"TS_001": {"verdict": "good", "keep": "no"}}),
        ("series", ROWS | {"TS_001": {"verdict": "good", "note": 3}}),
        ("series", ROWS | {"TS_001": {"verdict": "good", "note": "x" * 1001}}),
        ("series", ROWS | {"TS_001": "good"}),
    ],
)
def test_values_that_a_field_refuses(gate: Gate, people: People, field: str, value: Any) -> None:
    with pytest.raises(InvalidAnswers) as refused:
        answer(gate, people.reviewer, answers=GOOD | {field: value}, reason="So.")

    assert list(refused.value.extra["errors"]) == [field]


def test_nothing_hostile_is_shown_as_markup(gate: Gate) -> None:
    page = PROTOCOL.form(gate, data=GOOD | {"remark": '"><script>', "series": ROWS}).as_p()

    assert "<script>" not in page and "<b>TS_2</b>" not in page
    assert "&lt;b&gt;TS_2&lt;/b&gt;" in page and 'data-unit="Å"' in page


def test_the_page_starts_from_the_suggestion(gate: Gate) -> None:
    page = PROTOCOL.form(gate).as_p()

    assert gate.suggestion["threshold"] == 2.5 and gate.suggestion["series"]["TS_001"]["verdict"] == "good"
    assert 'value="2.5"' in page and '<option value="good" selected>' in page
    assert PROTOCOL.consequence(gate, {}) == "The picks above the threshold are extracted."


def test_items_that_the_evidence_speaks_of(lab: Lab) -> None:
    options = {"fields": [{"name": "series", "kind": "items", "items": "evidence"}]}
    gate = ask(lab, protocol="generic", options=options)
    for name, item in [("1", "TS_2"), ("2", "TS_1"), ("3", "TS_1"), ("4", "")]:
        Evidence.objects.create(gate=gate, name=name, item=item, kind="image", size_bytes=1, sha256="0" * 64)

    assert PROTOCOL.form(gate).fields["series"].items == ["TS_1", "TS_2"]


def test_verdicts_of_its_own(lab: Lab, people: People) -> None:
    gate = ask(lab, protocol="generic", options={"verdicts": {"approve": "Go on", "hold": "Hold", "reject": "Stop"}})

    assert {key: each.label for key, each in PROTOCOL.verdicts_at(gate).items()} == {
        "approve": "Go on",
        "hold": "Hold",
        "reject": "Stop",
    }
    with pytest.raises(ReasonOwed, match="Stop"):
        answer(gate, people.reviewer, "reject", answers={})
    assert answer(gate, people.reviewer, "hold", answers={}).decision.verdict == "hold"


def field(**changes: Any) -> dict[str, Any]:
    return {"fields": [{"name": "x", "kind": "number"} | changes]}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"feilds": []}, "feilds"),
        ({"fields": {}}, "fields"),
        (field(kind="slider"), "no kind 'slider'"),
        (field(kind=["number"]), "no kind"),
        (field(name="Bad Name"), "name"),
        (field(name="reason"), "taken"),
        (field(unti="Å"), "unti"),
        (field(min=2, max=1), "min 2 is above max 1"),
        (field(default=5, max=1), "default"),
        (field(kind="choice"), "choices"),
        (field(kind="choice", choices=["a"], default="b"), "default"),
        (field(kind="many", choices=["a"], at_least=3, at_most=2), "at_least"),
        (field(kind="items"), "items"),
        (field(kind="items", items=[]), "items"),
        ({"fields": [{"name": "x", "kind": "text"}, {"name": "x", "kind": "text"}]}, "two of this name"),
        ({"commands": ["slices"]}, "commands"),
        ({"commands": [[]]}, "commands"),
        ({"commands": [["slices", "a\nb"]]}, "commands"),
        ({"verdicts": {}}, "verdicts"),
        ({"verdicts": {"Go On": "x"}}, "Go On"),
    ],
)
def test_a_description_that_cannot_be_shown(options: dict, told: str) -> None:
    found = faults(options)

    assert any(told in fault for fault in found), found


def test_a_gate_with_such_a_description_says_so(lab: Lab) -> None:
    gate = ask(lab, protocol="generic", options=field(kind="slider"))

    assert gate.state == "prepare_failed" and "no kind 'slider'" in gate.error


def test_the_description_in_full_has_no_faults() -> None:
    assert faults(OPTIONS) == [] and faults({}) == []


def test_commands_are_run_where_the_subject_says(lab: Lab, keeper: Keeper, tmp_path: Path) -> None:
    here = Target.objects.create(lab=lab, name="here", host="here", roots=[str(tmp_path)], job_folder=str(tmp_path))
    keeper.preparation = lambda gate, commands: Preparation(  # type: ignore[attr-defined]
        [["render", *command] for command in commands], here, str(tmp_path), str(tmp_path / "out"), Resources(60, 64)
    )
    try:
        gate = ask(lab, protocol="generic", options={"commands": [["slices", "rec/TS_001.mrc"]]})
    finally:
        del keeper.preparation  # type: ignore[attr-defined]

    assert gate.state == "preparing"
    assert f"render slices rec/TS_001.mrc --out {tmp_path}/out/attempt_1/01_render" in Job.objects.get().script


def test_commands_where_the_subject_runs_none(lab: Lab) -> None:
    gate = ask(lab, protocol="generic", options={"commands": [["slices", "rec/TS_001.mrc"]]})

    assert gate.state == "prepare_failed" and "can't have evidence made by commands" in gate.error


def test_what_to_look_at_is_shown_on_the_page_and_told_by_the_api(
    lab: Lab, people: People, gate: Gate, client: Client
) -> None:
    client.force_login(people.reviewer)
    assert "Look at the slices." in client.get(f"/gates/{gate.pk}/").content.decode()
    assert client.get(f"/api/v1/gates/{gate.pk}/").json()["intro"] == "Look at the slices."
    other = ask(lab)
    assert client.get(f"/api/v1/gates/{other.pk}/").json()["intro"] == ""
