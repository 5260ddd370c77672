"""Lines of the log, for people and for programs."""

import json
import logging
import sys
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from conductor_site.accounts.links import make_link
from conductor_site.logs import JsonLine, OneLine, logging_config
from conductor_site.models import LinkKind
from record.logkeys import about
from record.models import Lab, Role


def record(message: str, *args: object, exc_info: Any = None) -> logging.LogRecord:
    return logging.LogRecord("jobs.hands", logging.WARNING, __file__, 1, message, args, exc_info)


def test_a_line_ends_with_what_it_is_about() -> None:
    line = OneLine("{levelname} {name}: {message}", style="{")
    assert line.format(record("it is %s", "late")) == "WARNING jobs.hands: it is late"
    with about(job="j1x", target="gpu"):
        assert line.format(record("it is late")) == "WARNING jobs.hands: it is late | job=j1x target=gpu"


def test_a_message_is_one_line_whatever_stands_in_it() -> None:
    with about(job="j1x\nERROR forged"):
        told = OneLine("{message}", style="{").format(record("a\nb"))
    assert told == "a\\x0ab | job=j1x\\x0aERROR forged"


def test_a_traceback_moves_no_cursor_and_forges_no_message() -> None:
    try:
        raise ValueError("bad \x1b[2J\x9b\n2026-11-30 12:00:00 ERROR root: forged")
    except ValueError:
        failed = sys.exc_info()
    told = OneLine("{message}", style="{").format(record("it failed", exc_info=failed)).split("\n")
    assert told[:2] == ["it failed", "    Traceback (most recent call last):"]
    assert told[-2:] == ["    ValueError: bad \\x1b[2J\\x9b", "    2026-11-30 12:00:00 ERROR root: forged"]


def test_json_has_the_keys_as_keys_and_a_traceback_in_one_line() -> None:
    try:
        raise ValueError("no such file")
    except ValueError:
        failed = sys.exc_info()
    with about(job="j1x", run="r", target="gpu"):
        told = JsonLine().format(record("job %s\nfailed", "j1x", exc_info=failed))
    assert "\n" not in told
    line = json.loads(told)
    assert line["at"].endswith("+00:00") and line.pop("exception").endswith("ValueError: no such file")
    del line["at"]
    assert line == {
        "level": "WARNING",
        "logger": "jobs.hands",
        "message": "job j1x\nfailed",
        "job": "j1x",
        "run": "r",
        "target": "gpu",
    }


@pytest.mark.django_db
@pytest.mark.parametrize("formatter", [OneLine("{message}", style="{"), JsonLine()], ids=["line", "json"])
def test_a_refused_form_leaves_no_link_in_the_log(
    formatter: logging.Formatter, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    """A typing error uses no link up, and Django writes the address of what it refuses."""
    made = make_link(kind=LinkKind.INVITATION, life_h=1, lab=lab, role=Role.VIEWER)
    address = reverse("join", args=[made.secret])
    assert Client().post(address, {"username": "", "new_password1": "a", "new_password2": "b"}).status_code == 400
    told = [formatter.format(each) for each in caplog.records]
    assert any("/join/[redacted]/" in line for line in told)
    assert not any(made.secret in line for line in told)


def test_the_format_is_chosen_by_its_name() -> None:
    chosen = {
        form: logging_config(level="INFO", form=form)["handlers"]["stderr"]["formatter"] for form in ("LINE", "JSON")
    }
    assert chosen == {"LINE": "line", "JSON": "json"}
