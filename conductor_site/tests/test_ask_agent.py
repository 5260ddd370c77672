"""manage.py ask_agent: in words, whatever becomes of it."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from conductor_site.management.commands import ask_agent as command
from jobs.agents.models import Agent, Ask
from jobs.agents.tests.factories import Desk, run_asks
from record.models import Lab
from record.tests.factories import People


@pytest.fixture
def desk(people: People, lab: Lab, tmp_path: Path, settings: Any, monkeypatch: Any) -> Desk:
    """Whose jobs run while the command waits."""
    settings.AGENT_OUTPUT_ROOT = tmp_path / "outputs"
    monkeypatch.setattr(command.time, "sleep", lambda seconds: run_asks())
    return Desk(people, lab, tmp_path)


def call(*words: str) -> str:
    out = StringIO()
    call_command("ask_agent", *words, stdout=out, stderr=out)
    return out.getvalue()


def test_an_answer_in_words(desk: Desk) -> None:
    desk.agent("""echo '{"status": "ok", "answer": "I am a shell."}'""")
    told = call("claire", "What are you?")
    assert "answered" in told and "I am a shell." in told and "isolat" in told.lower()
    assert "No `manage.py conduct` has been at work" in told
    assert "| What are you?" in Ask.objects.get().prompt


def test_a_failure_in_words(desk: Desk) -> None:
    desk.agent("echo it is Sunday >&2; exit 2")
    with pytest.raises(CommandError, match="no answer that can be used"):
        call("claire")
    assert "it is Sunday" in Ask.objects.get().why


def test_an_agent_that_is_not_there(desk: Desk) -> None:
    desk.agent("true")
    with pytest.raises(CommandError, match="There are: claire"):
        call("nobody")


def test_one_that_is_not_set_up(desk: Desk) -> None:
    desk.agent("true")
    Agent.objects.update(configuration={"argv": []})
    with pytest.raises(CommandError, match="can't be asked as it is set up"):
        call("claire")


def test_it_does_not_wait_for_ever(desk: Desk, monkeypatch: Any) -> None:
    desk.agent("true")
    monkeypatch.setattr(command.time, "sleep", lambda seconds: None)
    with pytest.raises(CommandError, match="its job planned"):
        call("claire", "--wait", "1")
