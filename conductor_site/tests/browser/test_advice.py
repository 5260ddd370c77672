"""Agents asked at a gate, by a person with a phone: the answers stand beside the form, and the form stays theirs."""

from pathlib import Path
from typing import Any

import pytest

from conductor_site.tests.browser.conftest import DESK, PHONE, Open
from gates import protocols, subjects
from gates.models import Gate
from gates.tests.doubles import ask
from jobs.agents.models import Agent, Ask
from jobs.agents.tests.factories import run_asks
from jobs.hosts import this_host
from jobs.models import Target
from record.models import Decision, Lab
from record.tests.factories import People

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ANSWER = '{"status": "ok", "verdict": "bad", "reason": "<i>streaks</i> in the upper half"}'


@pytest.fixture
def gate(lab: Lab, people: People, tmp_path: Path, settings: Any) -> Gate:
    settings.AGENT_OUTPUT_ROOT = tmp_path / "outputs"
    protocols.register("looking", "gates.tests.test_advice:LOOKING")
    subjects.register("thing", "gates.tests.doubles:KEEPER")
    Target.objects.create(
        lab=lab, name="here", host=this_host(), roots=[str(tmp_path)], job_folder=str(tmp_path), slots=2
    )
    Agent.objects.create(
        lab=lab, name="claire", role="looks at tomograms", backend="command", family="shell", isolation="none",
        configuration={"command": ["echo", ANSWER]},
    )  # fmt: skip
    return ask(lab, protocol="looking", key="look", requested_by=people.operator)


@pytest.mark.parametrize("viewport", [PHONE, DESK])
def test_asked_shown_and_left_to_the_reviewer(open_page: Open, people: People, gate: Gate, viewport: Any) -> None:
    page = open_page(people.reviewer, f"/gates/{gate.pk}/", viewport=viewport)
    page.get_by_text("Agents: ask one about each item").click()
    page.get_by_role("button", name="Ask about each item").click()
    page.get_by_text("0 of 2 answers are in").wait_for()
    assert run_asks() == 2
    page.reload()
    page.get_by_text("2 of 2 answers are in").wait_for()
    assert page.get_by_text("<i>streaks</i> in the upper half").count() == 2, "markup is text"
    assert page.locator("i").count() == 0
    assert page.locator("select[name^=series]").evaluate_all("all => all.map(one => one.value)") == ["good", "good"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("recorded as decision 1").wait_for()
    seen = Decision.objects.get().evidence["advice"]
    assert seen == {str(each.uuid): each.digest for each in Ask.objects.all()}
    assert Decision.objects.get().statement.answers["series"]["TS_001"]["verdict"] == "good"
