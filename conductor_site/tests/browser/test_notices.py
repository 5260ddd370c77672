"""From a notice on a phone to a recorded decision: two page loads, at most three taps."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Request, expect

from conductor_site.tests.browser.conftest import Open
from gates.services import request_gate
from record.models import Decision, Lab
from record.notices.sending import send_due
from record.notices.services import Wishes, save_wishes
from record.tests.factories import People, make_subject
from record.tests.servers.smtp import MailHost

pytestmark = [pytest.mark.browser, pytest.mark.slow]
OPTIONS = {
    "fields": [{"name": "shift", "kind": "number", "label": "Largest shift", "unit": "px", "min": 0, "default": 4}]
}


@pytest.fixture
def link(lab: Lab, people: People, mail_host: MailHost, live_server: Any, settings: Any) -> str:
    """The link of the letter that a reviewer got about a gate."""
    settings.BASE_URL = live_server.url
    people.reviewer.email = "reviewer@example.org"
    people.reviewer.save()
    save_wishes(user=people.reviewer, wishes=Wishes(kinds=["gate.open"]))
    request_gate(
        lab_id=lab.pk, subject=make_subject(), key="look", protocol="generic", title="Look at it",
        context="run one, phase align", options=OPTIONS, policy={"reason": "never"},
        requested_by=people.operator,
    )  # fmt: skip
    assert send_due() == 1
    text = mail_host.box.letters[0].get_body(["plain"])
    assert text
    (found,) = re.findall(r"^https?://\S+", text.get_content(), re.MULTILINE)
    return str(found)


def loads_of(page: Page) -> list[Request]:
    """Fills with the pages that are loaded from now on; redirects are part of the load that they lead to."""
    found: list[Request] = []
    page.on("framenavigated", lambda frame: found.append(frame.url))  # type: ignore[arg-type]
    return found


def test_two_page_loads_and_three_taps(link: str, open_page: Open, people: People) -> None:
    page = open_page(people.reviewer, "/notices/")  # a session is there; the page does not matter
    loads = loads_of(page)
    page.goto(link)  # the tap on the link in the letter
    taps = 1
    page.get_by_label("Largest shift").fill("4.5")
    taps += 1
    page.get_by_role("button", name="Approve", exact=True).click()
    taps += 1
    expect(page.get_by_role("heading", name="Decision", exact=True)).to_be_visible()
    assert taps <= 3
    documents = [url for url in loads if "#" not in str(url)]
    assert len(documents) == 2, documents
    decision = Decision.objects.get()
    assert (decision.verdict, decision.actor_name, decision.door) == ("approve", "reviewer", "web")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_without_a_session_the_link_leads_through_sign_in_to_the_gate(
    link: str, open_page: Open, people: People
) -> None:
    page = open_page(people.reviewer, "/notices/")
    page.context.clear_cookies()
    page.goto(link)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    page.get_by_label("Username").fill("reviewer")
    page.get_by_label("Password").fill("a long enough password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Look at it")).to_be_visible()
    assert urlsplit(page.url).path == urlsplit(link).path
    assert not Decision.objects.exists()


def test_a_link_that_is_opened_decides_nothing(link: str, open_page: Open, people: People) -> None:
    page = open_page(people.reviewer, "/notices/")
    for _ in range(3):
        page.goto(link)
    assert not Decision.objects.exists()
