"""A real Chromium beside a live server; each page's console must stay clean."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from record.models import Lab
from record.tests.factories import People, make_lab, make_people
from runs.tests.factories import Bench

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 800}

Open = Callable[..., Page]


def find_chromium() -> str:
    """Where Chromium is; without one the test is skipped, and fails where CI=true."""
    path = os.environ.get("CONDUCTOR_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not path:
        told = "Chromium is missing: install Debian's package chromium, or name it in CONDUCTOR_CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests. Its driver keeps an event loop in this thread, which Django must be told of."""
    path = find_chromium()
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


def _is_fault(message: ConsoleMessage) -> bool:
    """Chromium also writes an error for each refusal (4xx) that a test asks for on purpose."""
    return message.type == "error" and "responded with a status of 4" not in message.text


@pytest.fixture
def lab(transactional_db: None) -> Lab:
    return make_lab()


@pytest.fixture
def people(lab: Lab) -> People:
    return make_people(lab)


@pytest.fixture
def bench(people: People, lab: Lab, tmp_path: Path) -> Bench:
    """See runs.tests.factories.Bench."""
    return Bench(people, lab, tmp_path)


@pytest.fixture
def open_page(browser: Browser, live_server: Any) -> Iterator[Open]:
    """open_page(user, path): a page of the live server, signed in; what its console complains of fails the test."""
    complaints: list[str] = []
    contexts = []

    def opened(user: User, path: str, *, viewport: Any = PHONE, scheme: Any = "light", javascript: bool = True) -> Page:
        context = browser.new_context(
            viewport=viewport, color_scheme=scheme, java_script_enabled=javascript, base_url=live_server.url
        )
        contexts.append(context)
        client = Client()
        client.force_login(user)
        cookie = client.cookies["sessionid"].value
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if _is_fault(message) else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
