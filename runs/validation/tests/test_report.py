"""What a lab's validate.sh prints is read for what it says, and its oddities are known."""

import json
from typing import Any

import pytest

from record.errors import BadInput
from runs.validation.report import Answer, Judgement, judge, parse_report


def row(status: str, message: str = "x", **more: Any) -> dict[str, Any]:
    return {"status": status, "message": message} | more


def completion(done: int, total: int, phase: Any = "3b", message: str = "stacks") -> dict[str, Any]:
    return row("phase_completion", message, phase=phase, done=done, total=total)


def judged(*checks: dict[str, Any], phase: Any = "3b", errors: int = 0, of: str = "3b") -> Judgement:
    text = json.dumps({"phase": phase, "errors": errors, "warnings": 0, "checks": list(checks)})
    return judge(parse_report(text), of)


def test_a_completion_and_its_twin_count_once() -> None:
    assert judged(completion(3, 3), row("pass", "stacks")) == Judgement(Answer.PASS, 3, 3)
    assert judged(completion(2, 3), row("warn", "stacks")) == Judgement(Answer.FAIL, 2, 3, ("stacks",))
    assert judged(completion(2, 3), row("fail", "stacks")).problems == ("stacks",)


def test_rows_of_one_phase_are_summed_and_all_must_be_complete() -> None:
    assert judged(completion(3, 3), row("pass", "stacks"), completion(2, 3, message="angles")) == Judgement(
        Answer.FAIL, 5, 6, ("angles",)
    )
    assert judged(completion(3, 3), completion(3, 3, message="angles")) == Judgement(Answer.PASS, 6, 6)
    assert judged(completion(4, 3), completion(2, 3, message="angles")).answer == Answer.FAIL, (
        "none makes up for another"
    )
    assert judged(completion(0, 0)).answer == Answer.FAIL


def test_a_row_of_another_phase_does_not_count() -> None:
    assert judged(completion(3, 3), completion(1, 3, phase="4")) == Judgement(Answer.PASS, 3, 3)
    assert judged(row("pass"), phase="all").answer == Answer.NOT_CHECKED


@pytest.mark.parametrize("phase", [3.5, "3.5"])
def test_a_phase_may_be_a_number(phase: Any) -> None:
    assert judged(completion(1, 1, phase=phase), phase=phase, of="3.5") == Judgement(Answer.PASS, 1, 1)


def test_one_that_it_does_not_know_is_not_checked() -> None:
    assert judged(phase="99", of="99") == Judgement(Answer.NOT_CHECKED)
    assert judged(row("info"), row("warn")).answer == Answer.NOT_CHECKED


def test_errors_that_it_only_counts_are_errors() -> None:
    found = judged(row("pass"), errors=256)
    assert found.answer == Answer.FAIL and found.problems == ("it counts 256 errors, and names none",)
    assert judged(row("fail", "no stacks"), errors=1).problems == ("no stacks",)


def test_what_was_printed_before_the_report_does_no_harm() -> None:
    text = (
        'Activating warp\n{"phase": 2, "errors": 0, "warnings": 0, "checks": [{"status": "pass", "message": "x"}]}\n\n'
    )
    assert judge(parse_report(text), "2").answer == Answer.PASS


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("", "validate.sh printed nothing."),
        (" \n", "validate.sh printed nothing."),
        ("conda: command not found\n", "validate.sh printed no report: conda: command not found"),
        ('{"phase": 1', 'validate.sh printed no report: {"phase": 1'),
        ("[]", "validate.sh printed no report"),
        ('{"checks": 3}', "validate.sh printed no report"),
        ('{"checks": [{"status": "great"}]}', "a check that is none"),
        ('{"checks": ["x"]}', "a check that is none"),
        ('{"errors": "many", "checks": []}', "validate.sh reported errors as 'many', which is no count."),
        (json.dumps({"checks": [completion(-1, 3)]}), "reported done as '-1'"),
    ],
)
def test_what_is_no_report_is_refused_with_what_was_printed(printed: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_report(printed)
    assert said in refused.value.message
