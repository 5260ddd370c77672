"""What HTTP says of a file: the digest that it comes with, and the part of it that is wanted."""

import base64
import binascii
import re
from collections.abc import Mapping

from record.errors import BadInput, ConductorError

_HEX = re.compile("[0-9a-f]{64}")
_CONTENT_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]*):", re.IGNORECASE)
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=([A-Za-z0-9+/=]*)", re.IGNORECASE)
_RANGE = re.compile(r"bytes=(\d{0,20})-(\d{0,20})", re.ASCII)


class OutOfRange(ConductorError):
    """The part that is wanted lies beyond the file's end; `extra["size"]` (bytes) says where that is."""

    status = 416
    code = "out_of_range"


def stated_sha256(headers: Mapping[str, str], given: str = "") -> str:
    """The SHA-256 (hex) that a file is said to have: `given`, Content-Digest (RFC 9530), or Digest (RFC 3230).

    BadInput where none of them says one, where one can't be read, or where they differ.
    """
    said = {digest for digest in (_given(given), *_in_headers(headers)) if digest}
    if not said:
        raise BadInput(
            "Say which SHA-256 the file has, so that what is kept is what you sent: in the header "
            "'Content-Digest: sha-256=:BASE64:', or as sha256=HEX in the address.",
            code="digest_missing",
        )
    if len(said) > 1:
        raise BadInput("The digests that came with the file differ from one another.", code="digest_mismatch")
    return said.pop()


def _given(text: str) -> str:
    if text and not _HEX.fullmatch(text.lower()):
        raise BadInput("sha256 is a SHA-256 in 64 hexadecimal digits.", code="digest_unreadable")
    return text.lower()


def _in_headers(headers: Mapping[str, str]) -> list[str]:
    found = []
    for name, pattern in (("Content-Digest", _CONTENT_DIGEST), ("Digest", _DIGEST)):
        if match := pattern.search(headers.get(name, "")):
            found.append(_decoded(match[1], name))
    return found


def _decoded(text: str, header: str) -> str:
    try:
        raw = base64.b64decode(text, validate=True)
    except binascii.Error:
        raw = b""
    if len(raw) != 32:
        raise BadInput(f"The SHA-256 in the header {header} is not 32 bytes in base64.", code="digest_unreadable")
    return raw.hex()


def wanted_range(header: str, size_bytes: int) -> range | None:
    """The bytes that a Range header asks for (RFC 9110); None: the whole file, also where several parts are asked for
    or the header means nothing. OutOfRange where there are none."""
    match = _RANGE.fullmatch(header.replace(" ", ""))
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        wanted = range(max(0, size_bytes - int(last)), size_bytes)
    elif last and int(last) < int(first):
        return None
    else:
        wanted = range(int(first), min(int(last), size_bytes - 1) + 1 if last else size_bytes)
    if not wanted:
        raise OutOfRange(f"The file has {size_bytes} bytes; there are none where you ask.", extra={"size": size_bytes})
    return wanted
