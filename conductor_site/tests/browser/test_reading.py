"""Every page on a phone and at a desk, in light and dark: nothing overflows, nothing is blocked, live parts live."""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from conductor_site.tests.browser.conftest import DESK, PHONE, Open
from record.services import Author
from runs.services.control import cancel_run, pause_run
from runs.tests.factories import Bench, phase_of

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("viewport", "scheme"), [(PHONE, "light"), (PHONE, "dark"), (DESK, "light")])
def test_every_page_fits(open_page: Open, bench: Bench, viewport: object, scheme: str) -> None:
    run = bench.begin("needle-overview-with-a-rather-long-name-that-goes-on-for-a-while")
    bench.drive()
    phase = phase_of(run, "2")
    gate = run_gate_pk(run.uuid)
    page = open_page(bench.people.administrator, reverse("home"), viewport=viewport, scheme=scheme)
    for url in [
        reverse("home"),
        reverse("runs:list"),
        reverse("runs:new"),
        reverse("runs:detail", args=[run.pk]),
        reverse("runs:events", args=[run.pk]),
        reverse("runs:cancel", args=[run.pk]),
        reverse("runs:phase", args=[phase.pk]),
        reverse("gates:detail", args=[gate]),
        reverse("record:decisions"),
        reverse("jobs:targets"),
        reverse("jobs:target", args=[bench.target.pk]),
    ]:
        page.goto(url)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0, url
        expect(page.get_by_role("main")).to_be_visible()
        assert page.locator("[style], style, script:not([src])").count() == 0, url


def run_gate_pk(uuid: object) -> int:
    from gates.models import Gate

    return Gate.objects.get(root_uuid=uuid).pk


def test_a_run_page_follows_the_run_and_stops_at_its_end(open_page: Open, bench: Bench) -> None:
    run = bench.begin()
    page = open_page(bench.people.operator, reverse("runs:detail", args=[run.pk]))
    expect(page.locator(".status-line").get_by_text("running")).to_be_visible()
    author = Author.person(bench.people.operator, "web")
    pause_run(run=run, author=author)
    expect(page.locator(".status-line").get_by_text("paused")).to_be_visible(timeout=10_000)
    cancel_run(run=run, author=author, reason="wrong data")
    expect(page.locator(".status-line").get_by_text("cancelled")).to_be_visible(timeout=10_000)
    assert page.locator("#live").get_attribute("hx-trigger") is None


def test_the_keyboard_reaches_the_content_first(open_page: Open, bench: Bench) -> None:
    page = open_page(bench.people.viewer, reverse("home"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def test_starting_a_run_without_javascript(open_page: Open, bench: Bench) -> None:
    page = open_page(bench.people.operator, reverse("runs:new"), javascript=False)
    page.get_by_label("Name").fill("by hand")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("heading", name="by hand")).to_be_visible()
    expect(page.get_by_text("Run by hand has begun.")).to_be_visible()
