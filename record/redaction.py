"""The one redactor: takes every secret that is known, and what looks like one, out of a text.

It stands before everything that leaves Conductor or is kept of what others wrote. Known are the values that the caller
names, and those of this process: variables whose names say that they hold a secret and, where Django is set up, its
secret key and passwords. What is not known and has no shape of its own is not found: whoever must be sure keeps a
secret out of messages in the first place. Nothing but the standard library is needed, so that programs that run as
jobs share it.
"""

import base64
import json
import os
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote

REDACTED = "[redacted]"
SHORTEST_NAMED = 6  # characters of a secret that a caller names
SHORTEST_OWN = 8  # of one that is found among our variables: a shorter one would be found in ordinary words

_TELLING = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL", re.IGNORECASE)
_OURS = "CONDUCTOR_NOTICE__"
_PLACES = ("_FILE", "_PATH", "_DIR", "_SOCK")  # where a secret lies is none
_JOBS_MARK = "CONDUCTOR_TOKEN"  # names a job's folder, and opens nothing

# Each is linear in the text, whatever that is: what repeats is bounded, or taken whole and never looked at twice.
# Each as the issuer documents its form, or as RFC 7468 (PEM), RFC 7519 (JWT), RFC 3986 (userinfo), RFC 6750 (Bearer).
_PATTERNS = [
    re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}(?:-----END[A-Z0-9 ]{0,40}-----)?"
    ),
    re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic and those who follow them
    re.compile(r"\b(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})"),
    re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),  # Slack
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),  # AWS
    re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),  # Google
    re.compile(r"\bhf_[A-Za-z0-9]{20,}"),  # Hugging Face
    re.compile(r"\ba[ks]-[A-Za-z0-9]{20,}"),  # Modal
    re.compile(r"\bsyt_[A-Za-z0-9_+/=-]{10,}"),  # Matrix (Synapse)
    re.compile(r"\bwhsec_[A-Za-z0-9_+/=-]{16,}"),  # signed webhooks
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
]
_USERINFO = re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)[^\s/@]{1,200}(@)", re.IGNORECASE)
_BEARER = re.compile(
    r"(\bAuthorization\s{0,3}:\s{0,3}\w{1,20}\s{1,3}|\bBearer\s{1,3}(?=[A-Za-z._~+/=-]{0,200}[0-9]))[A-Za-z0-9._~+/=-]{12,}",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"((?:pass(?:word|wd|phrase)|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)\w{0,20}[\"']?\s{0,3}[:=]"
    r"\s{0,3}[\"']?)(?!\[redacted)(?![\d.]+\b)[^\s\"',;]{6,}",
    re.IGNORECASE,
)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """`text` without the `known` secrets and our own, in any common spelling, and without what has a secret's form."""
    named = [each.strip() for each in known if len(each.strip()) >= SHORTEST_NAMED]
    for secret in sorted({*named, *_own_values()}, key=len, reverse=True):  # one within another leaves nothing of it
        for spelling in _spellings(secret):
            text = text.replace(spelling, REDACTED)
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    text = _USERINFO.sub(rf"\1{REDACTED}\2", text)
    text = _BEARER.sub(rf"\1{REDACTED}", text)
    return _NAMED.sub(rf"\1{REDACTED}", text)


def _own_values() -> list[str]:
    """The secrets of this process."""
    found = [
        value
        for name, value in os.environ.items()
        if (name.startswith(_OURS) or _TELLING.search(name))
        and not name.upper().endswith(_PLACES)
        and name != _JOBS_MARK
    ]
    if "django.conf" in sys.modules:
        from django.conf import settings

        if settings.configured:
            found += [str(settings.SECRET_KEY), str(getattr(settings, "EMAIL_HOST_PASSWORD", "") or "")]
            found += [str(database.get("PASSWORD") or "") for database in settings.DATABASES.values()]
    return [value.strip() for value in found if len(value.strip()) >= SHORTEST_OWN]


@lru_cache(maxsize=256)
def _spellings(secret: str) -> list[str]:
    """A secret as it is, quoted for JSON, for a URL, in hex and in base64 (without its padding); longest first."""
    raw = secret.encode("utf-8", "surrogateescape")
    base = base64.b64encode(raw).decode().rstrip("=")
    found = {secret, json.dumps(secret)[1:-1], quote(secret, safe="", errors="surrogateescape"), raw.hex(), base}
    return sorted(found, key=len, reverse=True)
