"""Data can't leave its fence, whatever it is."""

import re

import pytest

from jobs.agents.prompts import MAX_DATA_CHARACTERS, fence, render
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


def test_a_prompt_has_the_question_the_data_and_how_to_answer() -> None:
    prompt = render(JUDGE, {"figures\nof it": "residual: 2 px"})
    assert prompt.startswith(JUDGE.question) and "\nfigures of it:\n<<<DATA" in prompt.replace("\n\n", "\n")
    assert '"enum": ["good", "suspect", "bad"]' in prompt and '"blocked"' in prompt
    assert "front matter" in render(JUDGE, {}, "front_matter")
