"""What comes in and what goes out: a question as JSON, an answer as two files in a folder of their own."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from record.redaction import redact

MAX_RAW_BYTES = 5 * 1024 * 1024
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
    raw = redact(answer.raw[:MAX_RAW_BYTES].decode("utf-8", "replace"), known).encode()[:MAX_RAW_BYTES]
    report = asdict(answer) | {"raw": None, "cut": answer.cut or len(answer.raw) > MAX_RAW_BYTES}
    report["message"] = redact(answer.message, known)[:2000]
    report["text"] = None if answer.text is None else redact(answer.text, known)
    report["facts"] = {name: redact(v, known) if isinstance(v, str) else v for name, v in answer.facts.items()}
    _write(f"{folder}/{RAW}", raw)
    _write(f"{folder}/{REPORT}", json.dumps(report).encode())


def _write(path: str, data: bytes) -> None:
    scratch = f"{path}.part"
    with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(scratch, path)
