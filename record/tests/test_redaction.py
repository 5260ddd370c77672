"""The one redactor: every secret that is known, and what has the form of one; and nothing else."""

import base64
import time
from typing import Any

import pytest

from record.redaction import redact

KNOWN = 'p4ss "w\\rd/ü'


@pytest.mark.parametrize(
    "text",
    [
        KNOWN, f"a{KNOWN}b", KNOWN.encode().hex(), base64.b64encode(KNOWN.encode()).decode(),
        "p4ss%20%22w%5Crd%2F%C3%BC", 'p4ss \\"w\\\\rd/\\u00fc',
    ],
)  # fmt: skip
def test_a_known_secret_in_each_spelling(text: str) -> None:
    shown = redact(f"before {text} after", [KNOWN])
    assert shown.startswith("before ") and shown.endswith(" after") and "[redacted]" in shown
    assert text not in shown


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnop1234", "sk-ant-api03-abcdefghijklmnop", "ghp_" + "a1" * 18, "github_pat_" + "a1" * 20,
        "glpat-abcdefghij0123456789", "xoxb-1234567890-abcdef", "AKIAABCDEFGHIJKLMNOP", "AIza" + "b" * 35,
        "hf_" + "c" * 34, "ak-" + "a1B2" * 6, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "syt_dXNlcg_abcdefghijklmnopqrst_0aBcD",
    ],
)  # fmt: skip
def test_forms_that_issuers_document(secret: str) -> None:
    assert redact(f"it is {secret}.") in ("it is [redacted].", "it is [redacted]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://lab:hunter22@db/x", "postgresql://lab:[redacted]@db/x"),
        ("Authorization: Bearer abc123def456ghi", "Authorization: Bearer [redacted]"),
        ('{"api_key": "abcdefgh"}', '{"api_key": "[redacted]"}'),
        ("PASSWORD=correct-horse", "PASSWORD=[redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nafter", "[redacted]\nafter"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut", "[redacted]"),
    ],
)
def test_what_stands_where_secrets_stand(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "A basic reconstruction of the bearer of high-resolution features.", "tokens: 1234567", "https://example.org/a:b@c",
        "residual 1.2 px; keep TS_001", "sk-8 samples", "", "the token is late",
    ],
)  # fmt: skip
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_once_is_enough() -> None:
    text = redact("PASSWORD=correct-horse sk-abcdefghijklmnop1234 postgres://a:bcdefgh@x")
    assert redact(text) == text


@pytest.mark.parametrize(
    "part",
    [
        "eyJaaaaaaaa-",
        "eyJaaaaaaaa.",
        "-----BEGIN PRIVATE KEY-----",
        "a://b:",
        "token",
        "Bearer ",
        "sk-",
        "-",
        "pass=' ",
    ],
)
def test_no_text_makes_it_slow(part: str) -> None:
    size = 500_000  # minutes, if each place were looked at anew from each before it
    begun = time.process_time()
    redact(part * (size // len(part)))
    assert time.process_time() - begun < 20


def test_the_values_of_our_own_secrets(settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "plainlookingvalue")
    monkeypatch.setenv("CONDUCTOR_NOTICE__ROOM", "another plain value")
    monkeypatch.setenv("LAB_SECRET_FILE", "/etc/conductor/lab.key")
    monkeypatch.setenv("SHORT_TOKEN", "good")
    monkeypatch.setenv("CONDUCTOR_TOKEN", "j0123456789x")
    settings.SECRET_KEY = "this signs our sessions"
    text = (
        "plainlookingvalue, another plain value, this signs our sessions; /etc/conductor/lab.key is good, j0123456789x"
    )
    assert redact(text) == "[redacted], [redacted], [redacted]; /etc/conductor/lab.key is good, j0123456789x"


def test_one_secret_within_another_leaves_nothing_of_it() -> None:
    assert redact("abcdefghijkl", ["abcdef", "abcdefghijkl"]) == "[redacted]"
