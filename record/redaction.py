"""The one redactor: takes what looks like a secret, and every secret that is known, out of a text.

It stands before everything that leaves Conductor or is kept of what others wrote. It uses nothing but the standard
library, so that programs that run as jobs share it.
"""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote

STRUCK = "[redacted]"
SHORTEST_KNOWN = 6  # characters; a shorter value is too likely to be a word of the text

# Each is linear in the text, whatever that is: what repeats is bounded, or taken whole and never looked at twice.
# Each as the issuer documents its form, or as RFC 7468 (PEM), RFC 7519 (JWT), RFC 3986 (userinfo), RFC 6750 (Bearer).
_PATTERNS = [
    re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----)){0,20000}(?:-----END[A-Z ]{0,40}-----)?"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic and those who follow them
    re.compile(r"\b(?:gh[oprsu]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,})"),
    re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),  # Slack
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),  # AWS
    re.compile(r"\bAIza[A-Za-z0-9_-]{35}"),  # Google
    re.compile(r"\bhf_[A-Za-z0-9]{30,}"),  # Hugging Face
    re.compile(r"\bsyt_[A-Za-z0-9_-]{20,}"),  # Matrix (Synapse)
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
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
    """`text` without the `known` secrets, in whatever common spelling, and without what has the form of a secret."""
    for secret in known:
        for spelling in _spellings(secret):
            text = text.replace(spelling, STRUCK)
    for pattern in _PATTERNS:
        text = pattern.sub(STRUCK, text)
    text = _USERINFO.sub(rf"\1{STRUCK}\2", text)
    text = _BEARER.sub(rf"\1{STRUCK}", text)
    return _NAMED.sub(rf"\1{STRUCK}", text)


def _spellings(secret: str) -> list[str]:
    """A secret as it is, quoted for JSON, for a URL, in hex and in base64 (without the last characters, which depend on
    what stands behind it); longest first."""
    secret = secret.strip()
    if len(secret) < SHORTEST_KNOWN:
        return []
    raw = secret.encode("utf-8", "surrogateescape")
    base = base64.b64encode(raw).decode().rstrip("=")
    found = {secret, json.dumps(secret)[1:-1], quote(secret, safe="", errors="surrogateescape"), raw.hex(), base}
    return sorted(found, key=len, reverse=True)
