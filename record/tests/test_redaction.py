"""The one redactor: every secret that is known, and what has the form of one; and nothing else."""

import base64
import time

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
        "hf_" + "c" * 34, "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "syt_dXNlcg_abcdefghijklmnopqrst_0aBcD",
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
