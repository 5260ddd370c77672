"""How evidence is laid out, and how figures are read."""

from gates.models import Evidence
from gates.showing import arrange, figure_label, figure_text, item_figures, overall_figures, summary


def piece(name: str, kind: str = "image", **fields: object) -> Evidence:
    return Evidence(name=name, kind=kind, **fields)


def test_items_come_in_order_and_what_speaks_of_all_comes_last() -> None:
    shown = arrange([piece("z"), piece("b", item="TS_002"), piece("a", item="TS_001")], {}, {})
    assert [section.item for section in shown] == ["TS_001", "TS_002", ""]


def test_slices_of_a_stack_stand_by_their_index_and_begin_in_the_middle() -> None:
    slices = [piece(f"s{n}", "stack", item="TS_001", group="xy", index=n) for n in (3, 1, 2)]
    (section,) = arrange(slices, {}, {})
    (stack,) = section.stacks
    assert [each.index for each in stack.slices] == [1, 2, 3]
    assert (stack.start.index, stack.position) == (2, 2)


def test_advice_makes_a_section_even_without_evidence() -> None:
    (section,) = arrange([], {"items": {"TS_003": {"verdict": "bad", "reason": "streaks"}}}, {})
    assert (section.item, section.verdict, section.reason) == ("TS_003", "bad", "streaks")


def test_odd_advice_is_passed_over() -> None:
    assert arrange([], {"items": ["TS_003"]}, {"00": None}) == []
    assert arrange([], {"items": {"TS_003": "bad"}}, {}) == []


def test_tables_and_logs_have_shelves_of_their_own() -> None:
    (section,) = arrange([piece("t", "table"), piece("l", "log"), piece("c", "curve")], {}, {})
    names = [[each.name for each in shelf] for shelf in (section.tables, section.files, section.pictures)]
    assert names == [["t"], ["l"], ["c"]]


def test_figures_of_an_item_and_of_all() -> None:
    figures = {
        "00_slices": {"series": {"TS_001": {"std": 0.00174, "dims": [64, 64, 32], "verdict": "good"}}},
        "01_picks": {"series": "TS_001", "n_picks": 8},
        "02_fsc": {"resolution_0_5_angstrom": 53.139},
    }
    assert item_figures(figures, "TS_001") == [
        ("std", "0.00174"),
        ("dims", "64 × 64 × 32"),
        ("number of picks", "8"),
    ]
    assert overall_figures(figures) == [("resolution 0.5, Å", "53.14")]


def test_figures_are_read_as_people_read_them() -> None:
    assert figure_label("residual_px") == "residual, px"
    assert figure_label("px") == "px"
    assert [figure_text(value) for value in (None, float("nan"), True, 123456.7, 3)] == [
        "—",
        "—",
        "yes",
        "123,457",
        "3",
    ]


def test_a_suggestion_in_a_few_words() -> None:
    items = {"TS_001": {"verdict": "good"}, "TS_002": {"verdict": "good"}, "TS_003": {"verdict": "bad"}}
    assert summary({"items": items}) == "Suggested: 2 good, 1 bad (TS_003)."
    assert summary({}) == ""
