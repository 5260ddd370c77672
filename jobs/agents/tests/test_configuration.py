"""What an agent's configuration may say; secrets are named in it, never written."""

from typing import Any

import pytest

from jobs.agents.backends import backend_for, names
from jobs.agents.configuration import secret_names, takes_pictures
from record.errors import BadInput

HTTP = {"base_url": "https://llm.example.org/v1", "model": "looker-2", "key_file": "/etc/conductor/looker.key"}


@pytest.mark.parametrize(
    ("backend", "configuration"),
    [
        ("command", {"command": ["/usr/bin/claire", "-p"]}),
        ("command", {"command": ["claire"], "environment": ["CLAIRE_KEY"], "secret_files": {"KEY": "/etc/key"},
                     "home": "/srv/claire", "readable": ["/opt/claire"], "network": False, "front_matter": True,
                     "pictures": False, "envelope": {"text": "result"}, "exit_codes": {"75": "rate_limited"},
                     "stderr_says": {"content_policy": ["flagged"]}}),
        ("openai_http", HTTP),
        ("openai_http", {**HTTP, "pictures": True, "parameters": {"temperature": 0}, "usd_per_million_in": 3,
                         "usd_per_million_out": 15}),
        ("human", {}),
        ("human", {"who": ["ada"], "due_s": 3600}),
    ],
)  # fmt: skip
def test_what_can_be_used(backend: str, configuration: dict[str, Any]) -> None:
    assert backend_for(backend).faults(configuration) == []


@pytest.mark.parametrize(
    ("backend", "configuration", "told"),
    [
        ("command", {}, "command"),
        ("command", {"command": "claire -p"}, "not of type 'array'"),
        ("command", {"command": []}, "command"),
        ("command", {"command": ["x"], "shell": True}, "shell"),
        ("command", {"command": ["x"], "environment": ["CONDUCTOR_SECRET_KEY"]}, "Conductor's own"),
        ("command", {"command": ["x"], "environment": ["DATABASE_URL"]}, "Conductor's own"),
        ("command", {"command": ["x"], "environment": ["A B"]}, "A B"),
        ("command", {"command": ["x"], "readable": ["relative"]}, "relative"),
        ("command", {"command": ["x"], "exit_codes": {"1": "ok"}}, "ok"),
        ("command", {"command": ["x", "--key", "sk-abcdefghijklmnop1234"]}, "word 3: this looks like a secret"),
        ("openai_http", {**HTTP, "parameters": {"x": {"token": "sk-abcdefghijklmnop1234"}}}, "looks like a secret"),
        ("openai_http", {**HTTP, "key_variable": "KEY"}, "key_variable or key_file"),
        ("openai_http", {"base_url": "https://x", "model": "m"}, "key_variable or key_file"),
        ("openai_http", {**HTTP, "base_url": "file:///etc/passwd"}, "base_url"),
        ("openai_http", {**HTTP, "base_url": "https://user:word@x"}, "base_url"),
        ("openai_http", {**HTTP, "parameters": {"stream": True}}, "parameters"),
        ("openai_http", {**HTTP, "key": "abc"}, "key"),
        ("human", {"who": "anybody"}, "who"),
        ("human", {"agents_may": True}, "agents_may"),
        ("human", ["ada"], "names and values"),
    ],
)  # fmt: skip
def test_what_can_not_is_told_in_words(backend: str, configuration: Any, told: str) -> None:
    found = backend_for(backend).faults(configuration)
    assert found and told in "; ".join(found), found


def test_there_are_three_backends_and_no_other() -> None:
    assert names() == ["command", "human", "openai_http"]
    with pytest.raises(BadInput, match="command, human, openai_http"):
        backend_for("telepathy")


def test_what_its_job_may_see_and_take() -> None:
    assert secret_names({"environment": ["A"], "key_variable": "B"}) == ["A", "B"]
    assert takes_pictures("command", {}) and not takes_pictures("openai_http", {})
    assert takes_pictures("openai_http", {"pictures": True}) and not takes_pictures("command", {"pictures": False})
