"""The form of a new run in a real browser."""

from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from conductor_site.tests.browser.conftest import Open
from runs.tests.factories import OVERLAY, Bench, write_pipeline

pytestmark = pytest.mark.browser


def test_choosing_a_preset_shows_its_values_and_keeps_what_was_typed(open_page: Open, bench: Bench) -> None:
    plain = OVERLAY.replace("presets:\n", "presets:\n  plain: {title: As it is}\n")
    write_pipeline(Path(bench.pipeline.folder), **{"scripts/conductor.yml": plain})
    page = open_page(bench.people.operator, reverse("runs:new"))
    page.get_by_text("Values that differ from the preset").click()
    size = page.get_by_label("Size")
    expect(size).to_have_attribute("placeholder", "32")

    size.fill("48")
    page.get_by_label("Preset").select_option("small")

    expect(size).to_have_attribute("placeholder", "16")
    expect(size).to_have_value("48")
