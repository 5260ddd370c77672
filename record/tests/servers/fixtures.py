"""Fixtures of the servers; Synapse is one a session (and worker), since its start is what costs."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from record.tests.servers.hooks import HookHost
from record.tests.servers.smtp import MailHost, SilentHost
from record.tests.servers.synapse import Homeserver, is_installed


@pytest.fixture
def mail_host(settings: Any) -> Iterator[MailHost]:
    """A mail server, which the settings name."""
    host = MailHost()
    host.start()
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", host.port
    settings.DEFAULT_FROM_EMAIL = "Conductor <conductor@lab.example.org>"
    yield host
    host.stop()


@pytest.fixture
def silent_host() -> Iterator[SilentHost]:
    host = SilentHost()
    yield host
    host.stop()


@pytest.fixture
def hook_host(settings: Any) -> Iterator[HookHost]:
    """A receiver of webhooks on this machine, which the settings allow."""
    host = HookHost()
    host.start()
    settings.WEBHOOK_PRIVATE = ["127.0.0.0/8"]
    yield host
    host.stop()


@pytest.fixture(scope="session")
def homeserver() -> Iterator[Homeserver]:
    if not is_installed():
        why = "matrix-synapse is missing: pip install -r requirements-dev.txt"
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI=true, and {why}", pytrace=False)
        pytest.skip(why)
    server = Homeserver()
    try:
        server.start()
        yield server
    finally:
        server.remove()
