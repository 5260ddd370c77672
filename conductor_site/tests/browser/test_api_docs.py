"""The page on which the API is read and tried."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from conductor_site.tests.browser.conftest import DESK, PHONE, Open
from conductor_site.tests.world import make_world
from record.models import Lab
from record.tests.factories import People
from runs.models import Run

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_a_run_is_paused_from_the_page(
    size: dict[str, int], people: People, lab: Lab, tmp_path: Path, open_page: Open
) -> None:
    world = make_world(lab, people.operator, tmp_path)
    page = open_page(people.operator, "/api/docs/")
    page.set_viewport_size(size)  # type: ignore[arg-type]
    command = page.locator("#operations-runs-runs_pause")
    command.locator(".opblock-summary-control").click()
    command.get_by_role("button", name="Try it out").click()
    command.locator("tr[data-param-name=id] input").fill(str(world.run.pk))
    command.locator("textarea").fill('{"reason": "beam time"}')
    command.get_by_role("button", name="Execute").click()
    expect(command.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    assert Run.objects.get(pk=world.run.pk).state == "paused"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
