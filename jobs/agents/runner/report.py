"""What comes in and what goes out: a question as JSON, an answer as two files in a folder of their own."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from record.redaction import redact

MAX_RAW_BYTES = 5 * 1024 * 1024
MARGIN_BYTES = 64 * 1024  # more than any secret has; as much is read past the end of what is kept
READ_BYTES = MAX_RAW_BYTES + MARGIN_BYTES
MESSAGE_CHARS = 2000
REPORT, RAW = "answer.json", "raw"
ANSWERED = "answered"  # it wrote something and ended well: what it wrote is read by whoever asked


@dataclass
class Answer:
    """How asking went: `answered`, or an outcome that is known without reading; `text` is the answer's own text where
    that is not the whole of `raw`."""

    outcome: str
    message: str = ""
    raw: bytes = b""
    cut: bool = False
    text: str | None = None
    isolation: str = ""
    exit_code: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def write_answer(folder: str, answer: Answer, secrets: Iterable[str]) -> None:
    """Write the answer without secrets: what was written first, and the report of it last, each whole or not at all."""
    known = list(secrets)
    raw = redacted_head(answer.raw, known, MAX_RAW_BYTES)
    report = asdict(answer) | {"raw": None, "cut": answer.cut or len(answer.raw) > MAX_RAW_BYTES}
    report["message"] = redact(answer.message, known)[:MESSAGE_CHARS]
    report["text"] = None if answer.text is None else redact(answer.text, known)
    report["facts"] = {
        name: redact(v, known)[:MESSAGE_CHARS] if isinstance(v, str) else v for name, v in answer.facts.items()
    }
    _write(f"{folder}/{RAW}", raw)
    _write(f"{folder}/{REPORT}", json.dumps(report).encode())


def redacted_head(raw: bytes, known: Iterable[str], most_bytes: int) -> bytes:
    """At most `most_bytes` of what was written, without secrets; of longer text MARGIN_BYTES more are looked at.

    Secrets are struck before it is cut, and where there was still more the margin goes: a secret across either end
    would leave its head there.
    """
    looked_at_bytes = most_bytes + MARGIN_BYTES
    shown = redact(raw[:looked_at_bytes].decode("utf-8", "replace"), known).encode()
    if len(raw) >= looked_at_bytes:
        shown = shown[:-MARGIN_BYTES]
    return shown[:most_bytes]


def _write(path: str, data: bytes) -> None:
    scratch = f"{path}.part"
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(scratch, path)
