"""Conf files: what is read, what is refused and where, and what writing changes."""

import re

import pytest

from record.errors import BadInput
from runs.conf.errors import ConfRefused
from runs.conf.evaluate import evaluate, values_of
from runs.conf.files import read_conf
from runs.conf.numbers import is_number
from runs.conf.placeholders import is_placeholder

TEXT = """# lengths in Angstrom
WORK_DIR=                       # where
ANGPIX=3.37   # Angstrom a pixel
BINNING_FACTOR=4
export NAME='two words'
TITLE="say \\"hi\\" # not a comment"  # a comment
TM_DIR="${WORK_DIR}/tm/${TM_LABEL:-none}"
URL=a#b
ALIGN_ANGPIX=
if [ -z "$ALIGN_ANGPIX" ]; then ALIGN_ANGPIX=$(awk "BEGIN {printf \\"%.6f\\", $ANGPIX * $BINNING_FACTOR}"); fi
"""
SEVERAL_LINES = """A=3.37
if [ -z "${X}" ]   # only if nobody gave it
then
    # the binned pixel
    X=$(awk "BEGIN {printf \\"%.2f\\", ${A} * 4}")
fi  # done
B=$X
"""


def faults(text: str) -> list[tuple[int, str]]:
    with pytest.raises(ConfRefused) as refused:
        evaluate([read_conf(text)])
    return [(each.line, each.message) for each in refused.value.faults]


def test_values_and_templates() -> None:
    file = read_conf(TEXT)
    values = values_of([file])
    assert values["NAME"] == "two words"
    assert values["TITLE"] == 'say "hi" # not a comment'
    assert values["URL"] == "a#b"
    assert values["TM_DIR"] == "/tm/none"
    assert file.templates["TM_DIR"] == "${WORK_DIR}/tm/${TM_LABEL:-none}"
    assert values["ALIGN_ANGPIX"] == "13.480000"


def test_a_derived_value_says_so() -> None:
    found = evaluate([read_conf(SEVERAL_LINES)])
    assert (found["X"].value, found["X"].formula, found["X"].line) == ("13.48", "${A} * 4", 2)
    assert found["B"].value == "13.48" and found["B"].line == 7


def test_what_was_given_is_not_derived_and_an_emptied_one_is_again() -> None:
    given = read_conf(TEXT).with_values({"ALIGN_ANGPIX": "10"})
    assert values_of([given])["ALIGN_ANGPIX"] == "10"
    assert given.with_values({"ALIGN_ANGPIX": ""}).text == TEXT


def test_a_value_that_is_only_derived_is_set_before_its_form() -> None:
    written = read_conf(SEVERAL_LINES).with_values({"X": "7"})
    assert written.text == SEVERAL_LINES.replace('if [ -z "${X}"', 'X=7\nif [ -z "${X}"')
    assert values_of([written])["B"] == "7"


def test_species_come_on_top_and_what_was_filled_in_before_stays() -> None:
    species = read_conf("TM_LABEL=ribosome\nANGPIX=5\nHERE=$TM_DIR/$TM_LABEL\n", "species_ribosome.conf")
    found = evaluate([read_conf(TEXT), species])
    assert found["HERE"].value == "/tm/none/ribosome"
    assert found["ANGPIX"].value == "5" and found["ALIGN_ANGPIX"].value == "13.480000"
    assert found["HERE"].file == "species_ribosome.conf"


def test_names_without_a_value_are_told() -> None:
    assert evaluate([read_conf("A=$NOWHERE/x\n")])["A"].unset == ("NOWHERE",)


def test_writing_changes_that_line_alone() -> None:
    written = read_conf(TEXT).with_values({"ANGPIX": "2.1", "TM_DIR": "${WORK_DIR}/other dir"}).text
    assert written == TEXT.replace("ANGPIX=3.37  ", "ANGPIX=2.1  ").replace(
        '"${WORK_DIR}/tm/${TM_LABEL:-none}"', '"${WORK_DIR}/other dir"'
    )


def test_the_assignment_that_counts_is_written() -> None:
    assert read_conf("A=1\nB=$A\nA=2\n").with_values({"A": "3"}).text == "A=1\nB=$A\nA=3\n"


def test_what_the_file_lacks_is_added_at_its_end() -> None:
    assert read_conf("A=1").with_values({"B": "x y"}).text == "A=1\n\n# Set for this run.\nB='x y'\n"


@pytest.mark.parametrize(
    "value", ["plain", "two words", "a'b", '$(touch x) `id` "q"', "ünï", "a#b", "*", "~/x", "\\${A}"]
)
def test_what_is_typed_is_read_again(value: str) -> None:
    file = read_conf(TEXT).with_values({"ANGPIX": value, "NEW": value})
    assert file.templates["ANGPIX"] == value == file.templates["NEW"]
    assert values_of([file.with_values({"ALIGN_ANGPIX": "1"})])["NEW"] == value.replace("\\$", "$")


@pytest.mark.parametrize("value", ["1\nrm -rf x", "a\rb", "x" * 2001, "${A%b}", "$HOME/x", "${A"])
def test_values_that_cant_stand_there_are_refused(value: str) -> None:
    with pytest.raises(BadInput, match="ANGPIX"):
        read_conf(TEXT).with_values({"ANGPIX": value})


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("A=$(rm -rf /)", r"\$\(\.\.\.\) runs a command"),
        ('A="$(rm -rf /)"', r"\$\(\.\.\.\) runs a command"),
        ("A=${B:-$(rm -rf /)}", r"\$\(\.\.\.\) runs a command"),
        ("A=`id`", "backtick"),
        ('A="`id`"', "backtick"),
        ("A=1; rm x", "begins another command"),
        ("A=1 | cat", "only a comment"),
        ("A=1|cat", "pipe"),
        ("A=1 > x", "only a comment"),
        ("A=1>x", "redirection"),
        ("source other.conf", "source"),
        (". other.conf", "source"),
        ("rm -rf x", "no assignment"),
        ("A=1 rm x", "only a comment"),
        ("A = 1", "no assignment"),
        ("A+=1", "no assignment"),
        ("A=(1 2)", "array"),
        ("A=~/x", "home folder"),
        ("A=$HOME/x", "environment"),
        ("PATH=/x:$PATH", "environment"),
        ("A=$1", "no reference"),
        ("A=${B%c}", "only"),
        ('A="open', "not closed"),
        ("A='open", "not closed"),
        ("A=\\", "goes on"),
        ("A=1\r", "carriage return"),
        ("A=1 # x\r", "carriage return"),
        ("\ufeffA=1", "byte order mark"),
        ("A=\x01", "control"),
        ('if [ -z "$A" ]; then B=$(awk "BEGIN {printf \\"%d\\", 1}"); fi', "tests whether A"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%s\\", 1}"); fi', "format"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {system(\\"id\\")}"); fi', "of conditions only"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%d\\", $NONE * 2}"); fi', "NONE, which is empty"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%d\\", 1 / 0}"); fi', "divides by zero"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%d\\", 010}"); fi', "octal"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%d\\", 1 2}"); fi', "no sum"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%d\\", x}"); fi', "no sum"),
        ('if [ -z "$A" ]; then A=$(awk "BEGIN {printf \\"%d\\", 1e12}"); fi', "too large"),
    ],
)
def test_all_else_is_refused_with_its_line(line: str, told: str) -> None:
    found = faults(f"# first\nOK=1\n{line}\nLAST=2\n")
    assert len(found) == 1 and found[0][0] == 3
    assert re.search(told, found[0][1]), found


def test_values_that_double_and_double_are_refused() -> None:
    lines = ["A0=xxxxxxxxxx"] + [f"A{i}=$A{i - 1}$A{i - 1}" for i in range(1, 60)]
    assert "more than 32768 characters" in faults("\n".join(lines))[0][1]


def test_a_formula_that_nearly_fits_is_refused_at_once() -> None:
    sum_of = " + ".join(["$" + "A" * 30] * 60)
    found = faults(f'if [ -z "$X" ]; then X=$(awk "BEGIN {{printf \\"%d\\", {sum_of} ! }}"); fi\n')
    assert [line for line, _ in found] == [1]


def test_every_fault_is_told_at_once() -> None:
    assert [line for line, _ in faults("A=`x`\nB=1\nC=$(y)\nsource z\n")] == [1, 3, 4]


def test_signs_in_comments_and_quotes_are_no_commands() -> None:
    assert values_of([read_conf("# $(rm) `x` ; | >\nA='a;b|c>`d`$(e)' # ; `f`\nB=\"1;2\"\n")]) == {
        "A": "a;b|c>`d`$(e)",
        "B": "1;2",
    }


@pytest.mark.parametrize("text", [".5", "1.", "4.5e-5", "-3", "+2", "1E5"])
def test_numbers(text: str) -> None:
    assert is_number(text)


@pytest.mark.parametrize("text", ["", ".", "1_0", "1,5", "0x10", "nan", "1e", "٣", "1 2"])
def test_no_numbers(text: str) -> None:
    assert not is_number(text)


def test_placeholders() -> None:
    assert is_placeholder("/path/to/gain.mrc") and is_placeholder("<Name>_x") and is_placeholder("<your account>")
    assert not is_placeholder("/data/paths/to") and not is_placeholder("a < b")
