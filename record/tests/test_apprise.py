"""Apprise, to a receiver on this machine."""

import json
import logging
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from record.models import Delivery, Event, Lab
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


@pytest.mark.django_db(transaction=True)
def test_an_error_that_quotes_its_secret_is_told_without(
    lab: Lab, settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets that are kept in the folder are no variables, so the redactor has to be told of them."""
    settings.NOTICE_SECRETS = tmp_path
    channel = make_channel(lab, "chat", "apprise")
    token = "q7Zp0KcW2mXv9RbT"
    keep_secret(variable_of(channel), f"slack://T1JJ3T3L2/A1BRTD4JD/{token}/#general")

    def quote(*_: Any) -> None:
        raise SendFailure(f"slack refuses /services/T1JJ3T3L2/{token}.", transient=False)

    monkeypatch.setattr(others, "send", quote)
    happen(lab)
    assert send_now() == 0
    told = f"{Delivery.objects.get().error} {Event.objects.get(kind='notice.give_up').message}"
    assert token not in told and told.count("slack refuses") == 2


def test_what_apprise_says_is_told_without_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    token = "q7Zp0KcW2mXv9RbT"

    def fail(*_: Any, **__: Any) -> bool:
        logging.getLogger("apprise").warning("refused at /%s/", token)
        return False

    monkeypatch.setattr("apprise.Apprise.notify", fail)
    with pytest.raises(SendFailure, match="refused at") as failure:
        others.send(message(), Where("", f"json://127.0.0.1/{token}/"))
    assert token not in failure.value.message


@pytest.mark.parametrize("secret", ["json://127.0.0.1/a, syslog://", "json://127.0.0.1/a syslog://"])
def test_one_secret_is_one_address(secret: str) -> None:
    """Else a second address would pass by the check of the first, and a failure of one would double the other's."""
    with pytest.raises(SendFailure, match="one address") as failure:
        others.send(message(), Where("", secret))
    assert not failure.value.unknown
