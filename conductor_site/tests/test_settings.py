"""Settings from the environment: refused where they can't be meant, and all documented."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from conductor_site.env import env_bool, env_choice, env_int, env_list, env_networks, env_prefix, env_secret
from conductor_site.tests.stage import ROOT

READS = re.compile(r"""(?:env_\w+\(|environ(?:\.get\(|\[))"(CONDUCTOR_\w+|CI)\"""")
OURS = re.compile(r"`((?:CONDUCTOR_\w+)|CI)`")


def test_every_variable_that_is_read_is_documented_and_no_other() -> None:
    root = Path(settings.BASE_DIR)
    sources = [
        path for app in ("record", "jobs", "gates", "runs", "conductor_site") for path in (root / app).rglob("*.py")
    ]
    read = {name for path in sources for name in READS.findall(path.read_text())}
    tables, _, set_by_conductor = (root / "docs/settings.md").read_text().partition("Set by Conductor itself")
    held_by_files = {"SECRET_KEY", "METRICS_TOKEN", "OIDC_CLIENT_SECRET", "OIDC_ROLES"}
    documented = set(OURS.findall(tables)) - {f"CONDUCTOR_{name}_FILE" for name in held_by_files}
    assert {"CONDUCTOR_DATA", "CONDUCTOR_PORT"} < documented
    assert read - documented - set(OURS.findall(set_by_conductor)) == set()
    assert documented - read == set()


@pytest.mark.parametrize(
    ("read", "value", "words"),
    [
        (lambda: env_bool("X", False), "perhaps", "X='perhaps' is neither yes nor no"),
        (lambda: env_int("X", 1), "many", "X='many' is not a whole number"),
        (lambda: env_int("X", 1, minimum=1), "0", "X=0 is below 1"),
        (lambda: env_int("X", 1, maximum=5), "6", "X=6 is above 5"),
        (lambda: env_choice("X", "INFO", ["INFO"]), "loud", "X='LOUD' is none of INFO"),
        (lambda: env_networks("X"), "10.1.0.7/16", "X: 10.1.0.7/16 has host bits set"),
        (lambda: env_prefix("X"), "conductor", "X='conductor' is not a path such as /conductor"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    read: Callable[[], Any], value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("X", value)
    with pytest.raises(ImproperlyConfigured, match=words):
        read()


def test_what_is_set_counts_and_else_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (env_bool("X", True), env_int("X", 7), env_list("X", ["a"])) == (True, 7, ["a"])
    monkeypatch.setenv("X", "on")
    assert env_bool("X", False)
    monkeypatch.setenv("X", " a, b,,")
    assert env_list("X", []) == ["a", "b"]


def test_a_path_loses_the_slash_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "/science/conductor/")
    assert env_prefix("X") == "/science/conductor"
    monkeypatch.setenv("X", "/")
    assert env_prefix("X") == ""


def test_a_secret_that_need_not_be_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert env_secret("X") == ""
    (tmp_path / "token").write_text("abc\n")
    monkeypatch.setenv("X_FILE", str(tmp_path / "token"))
    assert env_secret("X") == "abc"


def test_a_secret_is_made_once_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "var" / "secret"
    made = env_secret("X", kept)
    assert len(made) >= 50 and env_secret("X", kept) == made
    assert kept.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("X_FILE", str(tmp_path / "nowhere"))
    with pytest.raises(
        ImproperlyConfigured, match="X_FILE names .*/nowhere, which .* can't read or make .No such file"
    ):
        env_secret("X", kept)
    monkeypatch.setenv("X", "given")
    assert env_secret("X", kept) == "given"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"CONDUCTOR_Q_WORKERS": "many"}, "A setting can't be used: CONDUCTOR_Q_WORKERS='many' is not a whole number"),
        ({"CONDUCTOR_METRICS_TOKEN_FILE": "/"}, "METRICS_TOKEN_FILE names /, which .* can't read .*Is a directory"),
        ({"CONDUCTOR_DATA": "/dev/null/var"}, "SECRET_KEY is kept in /dev/null/var/secret_key, which .* can't read or"),
        ({}, "The database refused: no such table: .*was `manage.py migrate` run"),
    ],
)
def test_a_command_that_can_not_start_says_why_in_one_line(
    tmp_path: Path, environment: dict[str, str], words: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONDUCTOR_", "DATABASE_"))}
    told = kept | {"CONDUCTOR_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "conductor_site.settings"} | environment
    argv = [sys.executable, "manage.py", "check_target", "here"]
    done = subprocess.run(argv, cwd=ROOT, env=told, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert re.search(words, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1
