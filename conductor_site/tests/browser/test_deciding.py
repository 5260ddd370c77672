"""Gates are answered in a real browser: by clicking at 360 px, and without JavaScript."""

import re
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Locator, Page, expect

from conductor_site.tests.browser.conftest import Open
from gates.models import Evidence, Gate
from gates.services import answer_gate, request_gate
from gates.store import put
from gates.tests.test_pages import PNG
from record.models import Decision, Door, Lab
from record.services import Author
from record.tests.factories import People, make_subject

pytestmark = pytest.mark.browser

OPTIONS = {
    "consequence": "The kept series go on.",
    "fields": [
        {"name": "shift", "kind": "number", "label": "Shift", "unit": "px", "min": 0, "max": 10, "default": 2.5},
        {"name": "series", "kind": "items", "label": "Tilt series", "items": ["TS_001", "TS_002"]},
    ],
}


@pytest.fixture
def gate(lab: Lab, people: People) -> Gate:
    """An open generic gate with a number, a table of two series, and a stack of five slices of each."""
    gate = request_gate(
        lab_id=lab.pk,
        subject=make_subject(),
        key="look",
        protocol="generic",
        title="Look at it",
        context="run one, phase align",
        options=OPTIONS,
        policy={},
        requested_by=people.operator,
    )
    kept = put(PNG, name="slice.png", kind="stack")
    for series in ("TS_001", "TS_002"):
        for index in range(5):
            Evidence.objects.create(
                gate=gate,
                name=f"{series}/{index}",
                kind="stack",
                group=f"{series}/xy",
                index=index,
                item=series,
                caption=f"{series}, slice {index + 1} of 5",
                media_type=kept.media_type,
                sha256=kept.sha256,
                size_bytes=kept.size_bytes,
            )
    return gate


def at(gate: Gate) -> str:
    return reverse("gates:detail", args=[gate.pk])


def reason_of(page: Page) -> Locator:
    return page.locator("#decision").get_by_label("Reason")


def decide(page: Page, label: str) -> None:
    page.get_by_role("button", name=label, exact=True).click()
    page.wait_for_load_state()


def test_deciding_on_a_phone(open_page: Open, gate: Gate, people: People) -> None:
    page = open_page(people.reviewer, reverse("home"))
    page.get_by_role("link", name=re.compile("Look at it")).click()
    slider = page.get_by_role("slider").first
    slider.focus()
    slider.press("ArrowRight")
    expect(page.locator("figcaption").first).to_have_text("TS_001, slice 4 of 5")

    page.get_by_role("button", name="next item").click()
    expect(page.get_by_text("TS_002, slice 3 of 5")).to_be_visible()
    expect(page.get_by_text("TS_001, slice 4 of 5")).to_be_hidden()

    page.get_by_role("link", name="To the decision").click()
    expect(page.locator(".consequence")).to_contain_text("The kept series go on.")
    page.get_by_label("Shift").fill("99")
    page.get_by_label("Shift").blur()
    expect(page.locator(".consequence")).to_contain_text("do not hold yet")
    page.get_by_label("Shift").fill("2.5")
    page.get_by_label("Shift").blur()
    expect(page.locator(".consequence")).to_contain_text("The kept series go on.")
    page.get_by_label("keep TS_002").uncheck()
    reason_of(page).fill("TS_002 has streaks")
    decide(page, "Approve")

    expect(page.get_by_role("heading", name="Decision", exact=True)).to_be_visible()
    statement = Decision.objects.get().statement
    assert statement.reason == "TS_002 has streaks"
    assert [row["keep"] for row in statement.answers["series"].values()] == [True, False]


def test_deciding_without_javascript(open_page: Open, gate: Gate, people: People) -> None:
    page = open_page(people.reviewer, at(gate), javascript=False)
    expect(page.get_by_text("TS_001, slice 3 of 5")).to_be_visible()
    expect(page.get_by_text("TS_002, slice 3 of 5")).to_be_visible()
    page.get_by_text("All 5 slices").first.click()
    expect(page.get_by_role("link", name="4", exact=True).first).to_be_visible()

    page.get_by_label("Shift").fill("4")
    decide(page, "Show what these answers would do")
    expect(page.get_by_label("Shift")).to_have_value("4")
    assert not Decision.objects.exists()

    decide(page, "Approve")
    expect(page.get_by_role("alert")).to_contain_text("say why")
    expect(page.get_by_label("Shift")).to_have_value("4")
    reason_of(page).fill("measured by hand")
    decide(page, "Approve")
    assert Decision.objects.get().statement.answers["shift"] == 4


def test_somebody_elses_answer_is_told_without_losing_what_was_typed(
    open_page: Open, gate: Gate, people: People
) -> None:
    page = open_page(people.reviewer, at(gate))
    reason_of(page).fill("half a sentence")
    answers: dict[str, Any] = {name: value for name, value in gate.suggestion.items() if name != "items"}
    author = Author.person(people.administrator, Door.WEB)
    answer_gate(gate_id=gate.pk, author=author, verdict="approve", answers=answers, seen_digest=gate.digest)
    page.evaluate("htmx.ajax('GET', document.getElementById('pulse').getAttribute('hx-get'), '#pulse')")
    expect(page.get_by_text("has changed since you opened it")).to_be_visible()
    expect(reason_of(page)).to_have_value("half a sentence")


def test_sending_back_needs_a_reason(open_page: Open, gate: Gate, people: People) -> None:
    page = open_page(people.reviewer, at(gate), scheme="dark")
    decide(page, "Send back")
    expect(page.get_by_role("alert")).to_contain_text("needs a reason")
    reason_of(page).fill("wrong pixel size")
    decide(page, "Send back")
    assert Decision.objects.get().verdict == "send_back"


def test_notes_on_items_need_no_sideways_scrolling_on_a_phone(open_page: Open, gate: Gate, people: People) -> None:
    page = open_page(people.reviewer, at(gate), viewport={"width": 360, "height": 740})
    note = page.get_by_label("note on TS_002")
    note.scroll_into_view_if_needed()
    box = note.bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["width"] >= 180
    for element in ("html", ".table-scroll", ".curation"):
        assert page.locator(element).first.evaluate("box => box.scrollWidth <= box.clientWidth"), element
