"""Tables are cut to what a page can show, and say so."""

import pytest

from gates import store
from gates.models import Evidence, Gate
from gates.tables import Table, read_table
from gates.tests.doubles import ask
from record.errors import BadInput
from record.models import Lab


@pytest.fixture
def gate(lab: Lab) -> Gate:
    return ask(lab)


def keep(gate: Gate, text: str, name: str = "a.tsv") -> Evidence:
    stored = store.put(text.encode(), name=name, kind="table")
    return Evidence.objects.create(gate=gate, name=name, kind="table", **vars(stored))


def test_a_table(gate: Gate) -> None:
    table = read_table(keep(gate, "# made by fsc\nshell\tfsc\n1\t0.99\n\n2\t0.5\n"))

    assert table == Table(["shell", "fsc"], [["1", "0.99"], ["2", "0.5"]], total=2, cut=False)
    assert table.is_whole


def test_only_the_head_of_a_long_table(gate: Gate) -> None:
    table = read_table(keep(gate, "n\n" + "".join(f"{number}\n" for number in range(10_000))), limit=3)

    assert (table.rows, table.total, table.is_whole) == ([["0"], ["1"], ["2"]], 10_000, False)


def test_wide_tables_and_long_cells_are_cut(gate: Gate) -> None:
    table = read_table(keep(gate, "\t".join(f"c{n}" for n in range(100)) + "\n" + "x" * 1000))

    assert len(table.columns) == 40 and len(table.rows[0]) == 40 and table.cut
    assert len(table.rows[0][0]) == 200 and table.rows[0][0].endswith("…")


def test_commas_and_quotes(gate: Gate) -> None:
    assert read_table(keep(gate, 'a,b\n"1, 2",3\n', "a.csv")).rows == [["1, 2", "3"]]
    assert read_table(keep(gate, 'a\tb\n"1\t2\n')).rows == [['"1', "2"]]


def test_uneven_rows_and_no_rows(gate: Gate) -> None:
    assert read_table(keep(gate, "a\tb\n1\n")).rows == [["1", ""]]
    assert read_table(keep(gate, "\n\n", "b.tsv")) == Table([], [], 0, False)


def test_json_is_no_table(gate: Gate) -> None:
    with pytest.raises(BadInput, match="JSON, not a table"):
        read_table(keep(gate, "[]", "a.json"))
