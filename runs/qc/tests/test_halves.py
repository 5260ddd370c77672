"""A list of particles is split at random, header and all, the same way again for the same seed."""

import json
from pathlib import Path

import pytest

from runs.qc.halves import BadStar, main, read_table, split_rows

HEAD = "\ndata_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnVoltage #2\n1 300\n\n\ndata_particles\n\nloop_\n_a #1\n_b #2\n"


def star(count: int, end: str = "\n") -> str:
    return (HEAD + "".join(f"p{i:03d}  {i}.5\n" for i in range(count)) + "\n").replace("\n", end)


def split(folder: Path, text: str, seed: int) -> tuple[int, list[str]]:
    (folder / "sel.star").write_bytes(text.encode())
    names = ["--first", str(folder / "out/a.star"), "--second", str(folder / "out/b.star")]
    code = main(["--of", str(folder / "sel.star"), *names, "--seed", str(seed)])
    return code, [path.read_bytes().decode() for path in sorted((folder / "out").glob("*.star"))]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_particle_is_in_one_half_and_headers_stay(tmp_path: Path, end: str) -> None:
    code, halves = split(tmp_path, star(101, end), 7)
    tables = [read_table(half) for half in halves]
    assert code == 0 and [len(table.rows) for table in tables] == [51, 50]
    assert sorted([*tables[0].rows, *tables[1].rows]) == read_table(star(101, end)).rows
    assert {"".join(table.head) for table in tables} == {HEAD.replace("\n", end)}
    facts = json.loads((tmp_path / "out/a.json").read_text())
    assert (facts["seed"], facts["particles"], len(facts["sha256"])) == (7, [51, 50], 64)


def test_the_same_seed_gives_the_same_halves_and_another_does_not() -> None:
    rows = [f"{i}\n" for i in range(200)]
    assert split_rows(rows, 3) == split_rows(rows, 3) != split_rows(rows, 4)
    first, _ = split_rows(rows, 3)
    assert 30 < sum(int(row) < 100 for row in first) < 70, "not the first half of the list"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no table"),
        (HEAD, "its table has no rows"),
        (star(4) + "", ""),
        (star(4).rstrip()[:-4], "the table of particles is torn: line 18 has 1 values, and its header names 2"),
        (star(1), "it has one particle only"),
    ],
)
def test_what_can_not_be_split_is_told(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, halves = split(tmp_path, text, 1)
    assert (code, said in capsys.readouterr().err, len(halves)) == ((1, True, 0) if said else (0, True, 2))


def test_a_table_without_rows_is_none() -> None:
    with pytest.raises(BadStar):
        read_table("loop_\n_a #1\n")
