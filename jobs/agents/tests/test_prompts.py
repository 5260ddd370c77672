"""Data can't leave its fence, whatever it is."""

import json
import re

import pytest

from jobs.agents.prompts import MAX_DATA_CHARACTERS, MAX_PROMPT_CHARACTERS, fence, render, schema_of
from jobs.agents.tests.factories import JUDGE

FENCE = re.compile(r"<<<DATA (\w{16})\n((?:\|.*\n)*)\1 DATA>>>")


@pytest.mark.parametrize(
    "text",
    [
        "", "plain", "a\nb", "DATA>>>", "<<<DATA x\n| y\nx DATA>>>", "| bar", "\r\rover\rwritten",
        "a\x0bb\x0cc\x85d\u2028e",
        "\u202eturned", "\x1b[2Jcleared", "\x00", "\ud800", "{{ template }} {% x %}", "x" * 10_000,
    ],
)  # fmt: skip
def test_one_fence_around_all_of_it(text: str) -> None:
    whole = FENCE.fullmatch(fence(text))
    assert whole, fence(text)
    assert not set(whole[2]) & set("\x00\x1b\u202e\u2028\r\x0b\x0c\x85")


def test_the_word_is_another_each_time() -> None:
    assert len({FENCE.fullmatch(fence("x"))[1] for _ in range(50)}) == 50  # type: ignore[index]


def test_long_data_is_cut_and_says_so() -> None:
    shown = fence("line\n" * 50_000)
    assert len(shown) < 2 * MAX_DATA_CHARACTERS and "more characters are left out" in shown


@pytest.mark.parametrize("line", ["\n", "x" * 3999 + "\n", "line\n"])
@pytest.mark.parametrize("count", [1, 3, 12, 400])
def test_however_much_data_there_is_each_fence_is_closed_and_the_answer_is_asked_for(line: str, count: int) -> None:
    text = line * (600_000 // count // len(line) + 2)
    prompt = render(JUDGE, {f"piece {number}": text for number in range(count)})
    assert len(prompt) <= MAX_PROMPT_CHARACTERS
    assert len(FENCE.findall(prompt)) == prompt.count("<<<DATA") - 1 == count, "one is in our own words"
    assert prompt.count("more characters are left out") == count
    assert json.dumps(schema_of(JUDGE)) in prompt and '"blocked"' in prompt.splitlines()[-1]


def test_what_is_cut_is_counted() -> None:
    whole = FENCE.fullmatch(fence("abc\ndefgh\ni\n", most=13))
    assert whole and whole[2] == "| abc\n| defg\n| (4 more characters are left out)\n"
    whole = FENCE.fullmatch(fence("abc\n\n\ni", most=12))
    assert whole and whole[2] == "| abc\n| \n| \n| (1 more characters are left out)\n"
    assert "left out" not in fence("abc\n\n\ni", most=16)


def test_a_prompt_has_the_question_the_data_and_how_to_answer() -> None:
    prompt = render(JUDGE, {"figures\nof it": "residual: 2 px"})
    assert prompt.startswith(JUDGE.question) and "\nfigures of it:\n<<<DATA" in prompt.replace("\n\n", "\n")
    assert '"enum": ["good", "suspect", "bad"]' in prompt and '"blocked"' in prompt
    assert "front matter" in render(JUDGE, {}, "front_matter")
