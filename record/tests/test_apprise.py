"""Apprise, to a receiver on this machine."""

import json
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from record.models import Lab
from record.notices.secrets import keep_secret, variable_of
from record.notifiers import Item, Message, SendFailure, Where, others
from record.tests.notices_scene import happen, make_channel, send_now, states
from record.tests.servers.hooks import HookHost
from record.tests.servers.ports import free_port


def message() -> Message:
    return Message(uuid4(), "[Lab] run one finished", (Item("run one finished", (), "", timezone.now(), ""),))


@pytest.mark.django_db(transaction=True)
def test_it_is_handed_over(hook_host: HookHost, lab: Lab, settings: Any, tmp_path: Any) -> None:
    settings.NOTICE_SECRETS = tmp_path
    channel = make_channel(lab, "chat", "apprise")
    keep_secret(variable_of(channel), f"json://127.0.0.1:{hook_host.port}/chat")
    happen(lab, "run one finished")
    hook_host.status = 200
    assert send_now() == 1
    body = json.loads(hook_host.received[0].body)
    assert body["title"] == f"[{lab.name}] run one finished" and "run one finished" in body["message"]


@pytest.mark.django_db(transaction=True)
def test_without_its_secret_it_waits_and_says_what_is_missing(lab: Lab, settings: Any, tmp_path: Any) -> None:
    settings.NOTICE_SECRETS = tmp_path
    channel = make_channel(lab, "chat", "apprise")
    happen(lab)
    assert send_now() == 0
    channel.refresh_from_db()
    assert states() == ["pending"]
    assert f"manage.py notice_secret {lab.slug}/chat" in channel.problem


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("nonsense://x", "does not know the address"),
        ("syslog://", "this machine only"),
        ("json://127.0.0.1:PORT/", "did not take it"),
    ],
)
def test_what_is_wrong_is_told(secret: str, words: str) -> None:
    with pytest.raises(SendFailure, match=words):
        others.send(message(), Where("", secret.replace("PORT", str(free_port()))))
