"""Conf files are read as bash reads them, and written so that bash reads what was meant."""

import subprocess

import pytest

from record.errors import BadInput
from runs.conf import parse_conf, render_conf, resolve_conf

TEXT = """# lengths in Angstrom
WORK_DIR=                       # where
ANGPIX=1.96   # Angstrom a pixel
export NAME='two words'
TITLE="say \\"hi\\" # not a comment"  # a comment
TM_DIR="${WORK_DIR}/tm/${TM_LABEL:-none}"
URL=a#b
LIST=(a b c)
"""


def bash_value(text: str, key: str) -> str:
    script = f'{text}\nprintf %s "${key}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("key", ["WORK_DIR", "ANGPIX", "NAME", "TITLE", "URL"])
def test_values_are_those_that_bash_reads(key: str) -> None:
    assert parse_conf(TEXT)[key] == bash_value(TEXT, key)


def test_references_are_filled_in() -> None:
    resolved = resolve_conf(parse_conf(TEXT), {"WORK_DIR": "/data/run", "LOOP": "${LOOP}x", "A": "$B", "B": "$A"})
    assert (
        resolved["TM_DIR"] == "/data/run/tm/none" == bash_value(render_conf(TEXT, {"WORK_DIR": "/data/run"}), "TM_DIR")
    )
    assert resolved["LOOP"] == "x"
    assert resolved["A"] == ""


@pytest.mark.parametrize("value", ["plain", "two words", "a'b", '$(touch /tmp/x) `id` "q"', "ünïcode", "a#b", "", "*"])
def test_what_is_written_is_what_bash_reads_and_nothing_is_run(value: str) -> None:
    text = render_conf(TEXT, {"ANGPIX": value, "NEW": value})
    assert bash_value(text, "ANGPIX") == value == bash_value(text, "NEW")
    assert parse_conf(text)["ANGPIX"] == value == parse_conf(text)["NEW"]
    assert "# Angstrom a pixel" in text


def test_writing_twice_changes_nothing() -> None:
    once = render_conf(TEXT, {"ANGPIX": "2", "NEW": "x"})
    assert render_conf(once, {"ANGPIX": "2", "NEW": "x"}) == once


def test_the_last_of_several_assignments_counts_and_all_are_replaced() -> None:
    text = "A=1\nA=2\n"
    assert parse_conf(text)["A"] == "2"
    assert render_conf(text, {"A": "3"}) == "A=3\nA=3\n"


def test_a_line_break_is_refused() -> None:
    with pytest.raises(BadInput, match="line break"):
        render_conf(TEXT, {"ANGPIX": "1\nrm -rf x"})
