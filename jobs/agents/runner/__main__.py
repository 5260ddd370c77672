"""Reads one question from standard input, asks, writes the answer's files, and says in one line how it went."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from jobs.agents.runner import command, openai_http
from jobs.agents.runner.report import Answer, write_answer

ASK: dict[str, Callable[[dict[str, Any], str], Answer]] = {"command": command.ask, "openai_http": openai_http.ask}
MAX_KEY_BYTES = 64 * 1024


def main() -> int:
    """0 once an answer's files are written, whatever the answer is: how it went stands in them."""
    order = json.load(sys.stdin)
    folder, settings = order["folder"], order["configuration"]
    os.makedirs(folder, mode=0o700, exist_ok=True)
    order["key"], order["from_files"] = os.environ.get(settings.get("key_variable", ""), "").strip(), {}
    try:
        _read_files(order, settings)
        order["secrets"] = _secrets(order, settings)
        _check_attachments(order["attachments"])
        answer = ASK[order["backend"]](order, folder)
    except Unfit as error:
        answer = Answer("infra", str(error))
    write_answer(folder, answer, _secrets(order, settings))
    sys.stdout.write(f"{answer.outcome}\n")
    return 0


class Unfit(Exception):
    """Something that the question needs isn't here."""


def _read_files(order: dict[str, Any], settings: dict[str, Any]) -> None:
    """Read the secrets that the configuration names by their files."""
    if path := settings.get("key_file"):
        order["key"] = _read_secret(path)
    order["from_files"] = {name: _read_secret(path) for name, path in settings.get("secret_files", {}).items()}


def _read_secret(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read(MAX_KEY_BYTES).strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Unfit(f"The secret in {path} can't be read: {why}.") from error


def _secrets(order: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """All that was given by name, and must not come back in an answer."""
    given = [os.environ.get(name, "") for name in settings.get("environment", [])]
    return [value for value in (order["key"], *order["from_files"].values(), *given) if value]


def _check_attachments(attachments: list[dict[str, str]]) -> None:
    """Unfit unless each picture that goes along is here, and what it was."""
    for each in attachments:
        try:
            with open(each["path"], "rb") as handle:
                found = hashlib.file_digest(handle, "sha256").hexdigest()
        except OSError as error:
            raise Unfit(f"The picture {each['name']} can't be read where the agent runs: {error.strerror}.") from error
        if found != each["sha256"]:
            raise Unfit(f"The picture {each['name']} is not what was shown.")


if __name__ == "__main__":
    sys.exit(main())
