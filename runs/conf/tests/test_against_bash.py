"""What the reader accepts is what bash itself computes for the same files; what it refuses is never run."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from record.errors import BadInput
from runs.conf.errors import ConfRefused
from runs.conf.evaluate import evaluate
from runs.conf.files import ConfFile, read_conf

NAMES = ["A", "B", "ANGPIX", "X", "OUT_DIR", "_n9"]
FUZZ = settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def bash_values(folder: Path, texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Name -> value after bash, with an empty environment, has sourced the files one after the other."""
    script = ""
    for i, text in enumerate(texts):
        (folder / f"{i}.conf").write_bytes(text.encode())
        script += f"source ./{i}.conf || :\n"
    script += "".join(f"printf '%s\\0' \"${{{name}}}\"\n" for name in names)
    bash = ["/bin/bash", "--norc", "--noprofile", "-c", script]
    done = subprocess.run(bash, cwd=folder, env={}, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert sorted(path.name for path in folder.iterdir()) == [f"{i}.conf" for i in range(len(texts))]
    return dict(zip(names, done.stdout.decode().split("\0"), strict=False))


def agree(folder: Path, texts: Sequence[str]) -> bool:
    """Whether the files are accepted; if they are, bash must see the same values, and a new writing keeps them."""
    try:
        files = [read_conf(text, f"{i}.conf") for i, text in enumerate(texts)]
        found = evaluate(files)
    except ConfRefused as refused:
        assert refused.faults and all(fault.line >= 1 for fault in refused.faults)
        return False
    names = sorted({*found, *NAMES})
    seen = bash_values(folder, texts, names)
    assert {name: found[name].value if name in found else "" for name in names} == seen
    for file in files:
        typed = {name: template for name, template in file.templates.items() if template == template.strip()}
        assert file.with_values(typed).text == file.text
    return True


names = st.sampled_from(NAMES)
plain = st.text(st.sampled_from("abz09./:,+%=@-_#!{}[]*?^é"), max_size=6)
numbers = st.sampled_from(
    ["3.37", "4", ".5", "1.", "4.5e-5", "-2", "+7", "0", "0.1", "1e3", "13.48", "010", "1e400", "x", ""]
)
reference = st.one_of(
    names.map(lambda n: f"${n}"),
    names.map(lambda n: f"${{{n}}}"),
    st.tuples(names, st.text(st.sampled_from("ab1./ -:*?[],="), max_size=5)).map(lambda t: f"${{{t[0]}:-{t[1]}}}"),
    st.tuples(names, names).map(lambda t: f"${{{t[0]}:-${{{t[1]}:-d}}/x}}"),
)
single = st.text(st.sampled_from('ab $`;|()\\"#~&<>é'), max_size=6).map(lambda t: f"'{t}'")
double = st.lists(
    st.one_of(
        st.text(st.sampled_from("ab ;|()'#~&<>!é\\"), max_size=5),
        reference,
        st.sampled_from(["\\$", "\\`", '\\"', "\\\\"]),
    ),
    max_size=4,
).map(lambda parts: '"' + "".join(parts) + '"')
escaped = st.sampled_from(["\\ ", "\\$", "\\;", "\\#", "\\a", "\\é", "\\~"])
word = st.one_of(numbers, st.lists(st.one_of(plain, single, double, reference, escaped), max_size=4).map("".join))
comment = st.sampled_from(["", "  # a $(rm -rf x) `y` ; | > z", " #", "\t# é", " "])
assignment = st.tuples(st.sampled_from(["", "export ", "  "]), names, word, comment).map(
    lambda t: f"{t[0]}{t[1]}={t[2]}{t[3]}\n"
)
operand = st.one_of(
    names.map(lambda n: f"${n}"),
    names.map(lambda n: f"${{{n}}}"),
    st.sampled_from(["2", "0.75", "(1 + 2)", "-1", "int($A)"]),
)
formula = st.lists(
    st.tuples(operand, st.sampled_from([" * ", "/", " + ", " - ", "-", " "])), min_size=1, max_size=4
).map(lambda parts: "".join(a + b for a, b in parts[:-1]) + parts[-1][0])
breaks = st.sampled_from(
    [("; ", " ", "; "), ("\n", "\n    ", "\n"), ("; ", "  # why\n\n  ", "  # then\n# end\n"), (" ;", "\t", " ; ")]
)
derived = st.tuples(
    names, formula, st.sampled_from(["%.6f", "%d", "%.3g", "%f", "%.2e", "%i", "%s"]), breaks, comment
).map(
    lambda t: (
        f'if [ -z "${t[0]}" ]{t[3][0]}then{t[3][1]}{t[0]}=$(awk "BEGIN {{printf "{t[2]}", {t[1]}}}"){t[3][2]}fi{t[4]}\n'
    )
)
statement = st.one_of(assignment, assignment, derived, comment.map(lambda c: c + "\n"))
begun = st.sampled_from(["", "", "A=2\nB=.5\nANGPIX=3.37\n_n9=4.\nOUT_DIR=1e2\n"])
conf = st.tuples(begun, st.lists(statement, max_size=5).map("".join)).map("".join)
MUTATIONS = list("$`'\"\\;|&<>(){}~# \n\r\t=") + [
    "$(touch x)",
    "source x",
    "fi",
    "if",
    "then",
    "${",
    ":-",
    "\x01",
    "${A%b}",
    "A+=1",
]


@FUZZ
@given(texts=st.lists(conf, min_size=1, max_size=2))
def test_bash_computes_the_same(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    event("accepted" if agree(tmp_path_factory.mktemp("conf"), texts) else "refused")


@FUZZ
@given(text=conf, at=st.integers(0, 10_000), what=st.sampled_from(MUTATIONS), cut=st.integers(0, 2))
def test_bash_computes_the_same_for_what_was_spoilt(
    tmp_path_factory: pytest.TempPathFactory, text: str, at: int, what: str, cut: int
) -> None:
    at %= len(text) + 1
    spoilt = text[:at] + what + text[at + cut :]
    event("accepted" if agree(tmp_path_factory.mktemp("conf"), [spoilt]) else "refused")


@FUZZ
@given(text=conf, name=names, value=st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_what_is_written_is_what_bash_reads_and_other_lines_stay(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str, value: str
) -> None:
    try:
        before = read_conf(text)
        after = before.with_values({name: value})
        found = evaluate([after])
    except BadInput:
        return
    seen = bash_values(tmp_path_factory.mktemp("conf"), [after.text], sorted(found))
    assert {each: found[each].value for each in found} == seen
    if "$" not in value and value.strip():
        assert seen[name] == value.strip()
    assert changed_lines(before, after) <= 1 or name not in before.templates
    assert after.with_values({name: value}).text == after.text


def changed_lines(before: ConfFile, after: ConfFile) -> int:
    """How many of the lines of `after` are not, in their place, those of `before`; an added one counts once."""
    old, new = before.text.split("\n"), after.text.split("\n")
    if len(old) != len(new):
        return len(new) - len(old)
    return sum(a != b for a, b in zip(old, new, strict=True))


ODD_VALUES = """A=#x
B=a\\ b
ANGPIX="a\\qb\\$x"
X=${NONE:-a b}
OUT_DIR=${NONE:-*}
_n9=a{b,c}[d]?*
A1==b
A2=$B$ANGPIX
A3="$A2"x'y'"z"\\é
A4=a#b # c
A5=
A6=""
A7=${A7:-5}
A8=${A6:-${A5:-${A7}/x}}
A9="${A6:-two words}"!
export B1=* # d
B2='$A `x` $(y) "z" \\'
B3=a\\~b^%,@
B4=$A$
"""
ODD_SUMS = [
    "-7 / 2",
    "7 / -2",
    "5 / 2",
    "0.5 + 1",
    "1 - 2 - 3",
    "8 / 4 / 2",
    "2 * (3 + 4) - -1",
    "int(-3.7) + int(3.7)",
]
ODD_SUMS += ["1e3 * .5", "+2 - +1", "0.1 + 0.2", "1 / 3", "123456789.5", "2.5", "3.5", "(((4)))"]
FORMATS = ["%d", "%i", "%f", "%.0f", "%.6f", "%.15f", "%e", "%.3e", "%g", "%.3g", "%.10g"]


def test_odd_values(tmp_path: Path) -> None:
    assert agree(tmp_path, [ODD_VALUES.removesuffix("B4=$A$\n")])


def test_a_lone_dollar_sign_is_refused(tmp_path: Path) -> None:
    assert not agree(tmp_path, [ODD_VALUES])


@pytest.mark.parametrize("form", FORMATS)
def test_odd_sums(tmp_path: Path, form: str) -> None:
    lines = [
        f'if [ -z "$A{i}" ]; then A{i}=$(awk "BEGIN {{printf \\"{form}\\", {each}}}"); fi\n'
        for i, each in enumerate(ODD_SUMS)
    ]
    assert agree(tmp_path, ["".join(lines)])
