"""The gates of the tiny demo run, decided in a real Chromium, from the settings to the last sign-off."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.urls import reverse
from playwright.sync_api import expect

from conductor_site.tests.browser.conftest import DESK, PHONE, Open
from gates.models import Gate
from gates.states import GateState
from gates.sweep import apply_decided
from record.models import Decision
from runs.models import Run
from runs.states import RunState
from runs.tests.factories import Bench

DEMO = Path(settings.BASE_DIR) / "pipelines" / "demo_tomo"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.demo,
    pytest.mark.slow,
    pytest.mark.skipif(not (DEMO / "scripts/manifest.yml").exists(), reason="the demo pipeline isn't in this checkout"),
]


def test_the_demo_is_decided_by_clicking(open_page: Open, bench: Bench, settings: Any) -> None:
    settings.PIPELINE_ROOTS = [DEMO.parent]
    run = bench.begin("tiny demo", pipeline=bench.add_pipeline(DEMO, "demo"), preset="tiny")
    page = open_page(bench.people.reviewer, reverse("home"), viewport=PHONE)
    for turn in range(12):
        gate = Gate.objects.filter(state=GateState.OPEN).order_by("pk").first()
        if gate is None:
            break
        page.set_viewport_size(DESK if turn % 2 else PHONE)  # type: ignore[arg-type]
        page.goto(reverse("gates:detail", args=[gate.pk]))
        for picture in page.locator(".evidence img:visible").all()[:3]:
            picture.scroll_into_view_if_needed()
            expect(picture).to_have_js_property("complete", True)
            assert picture.evaluate("image => image.naturalWidth") > 100
        page.locator(".verdicts .primary").click()
        expect(page.get_by_role("heading", name="Decision", exact=True)).to_be_visible()
        apply_decided()
        bench.drive()
    run = Run.objects.get(pk=run.pk)
    assert run.state == RunState.DONE
    assert run.tilt_series.exclude(excluded_by=None).get().name == "TS_003"
    assert Decision.objects.filter(verdict="approve", door="web").count() == Gate.objects.count() == 6
