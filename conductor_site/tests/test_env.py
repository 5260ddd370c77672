"""DATABASE_URL: what libpq understands is taken, what can't be used is refused without showing the password."""

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from conductor_site.env import env_database, env_secret

SQLITE = {"ENGINE": "sqlite"}


def read(monkeypatch: pytest.MonkeyPatch, url: str) -> dict[str, Any]:
    monkeypatch.setenv("DATABASE_URL", url)
    return env_database(SQLITE)


def test_without_it_there_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert env_database(SQLITE) is SQLITE


def test_an_address_is_read_as_libpq_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, "postgres://me:p%40ss%2Fword@db.lab:6432/conductor?sslmode=verify-full&connect_timeout=9")
    names = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
    assert [found[name] for name in names] == ["conductor", "me", "p@ss/word", "db.lab", "6432"]
    assert (found["OPTIONS"]["sslmode"], found["OPTIONS"]["connect_timeout"]) == ("verify-full", "9")
    assert found["CONN_MAX_AGE"] == 60 and "lock_timeout=20s" in found["OPTIONS"]["options"]


def test_a_socket_and_own_options(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, "postgresql:///conductor?host=/run/postgresql&options=-c%20lock_timeout%3D5s")
    assert (found["HOST"], found["USER"]) == ("/run/postgresql", "")
    assert found["OPTIONS"]["options"].endswith("-c lock_timeout=5s")  # the last one counts


def test_a_file_with_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    (tmp_path / "url").write_text("postgresql://db/conductor\n")
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "url"))
    assert env_database(SQLITE)["HOST"] == "db"
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL_FILE names .*/none, which .* can't read"):
        env_database(SQLITE)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me:secret@db/conductor", "must begin with postgresql://"),
        ("postgresql://me:secret%zz@db/conductor", "can't be read"),
        ("postgresql://me:secret@db/conductor?colour=red", "can't be read"),
        ("postgresql://me:secret@db", "names no database"),
    ],
)
def test_what_can_not_be_used_is_refused_without_the_password(
    monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=words) as refused:
        read(monkeypatch, url)
    assert "secret" not in str(refused.value)


def test_a_secret_that_can_not_be_read_is_told_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("X", raising=False)
    monkeypatch.setenv("X_FILE", str(tmp_path))
    with pytest.raises(ImproperlyConfigured, match="X_FILE names .*, which .* can't read or make .Is a directory."):
        env_secret("X")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("X_FILE", str(tmp_path / "bytes"))
    with pytest.raises(ImproperlyConfigured, match="X is to be read from .*/bytes, which holds no text"):
        env_secret("X")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "bytes"))
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL_FILE names .*/bytes, which holds no text"):
        env_database(SQLITE)
