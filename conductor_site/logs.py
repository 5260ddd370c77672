"""How lines of the log are written: for people (`line`) or for programs (`json`)."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

from record.logkeys import keys_of

FORMATS = ["LINE", "JSON"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INDENT = "    "
# One-time links hold their secret in their address (conductor_site/urls.py), which Django writes with each refusal.
_LINK = re.compile(r"(/(?:join|new-password)/)[A-Za-z0-9_-]+")


class OneLine(logging.Formatter):
    """A message is one line and moves no cursor: an address with a line break in it can't forge a second message.

    What it is about stands at its end: `| job=j1f.. run=.. target=gpu`. Tracebacks follow in lines of their own, which
    are indented: what an error quotes can't forge a message either.
    """

    def format(self, record: logging.LogRecord) -> str:
        return _without_links(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's own name)
        keys = "".join(f" {name}={value}" for name, value in keys_of(record).items())
        record.message = _CONTROL.sub(_escaped, record.message + (f" |{keys}" if keys else ""))
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indented(super().formatStack(stack_info))


class JsonLine(logging.Formatter):
    """One JSON object a line: at (ISO, UTC), level, logger, message, a traceback as exception, and the keys."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"at": at, "level": record.levelname, "logger": record.name}
        line |= {"message": record.getMessage()} | keys_of(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _without_links(json.dumps(line))


def logging_config(*, level: str, form: str) -> dict[str, Any]:
    """The configuration of logging (see logging.config.dictConfig): everything to stderr. `form` is one of FORMATS."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "class": "conductor_site.logs.OneLine",
                "format": "{asctime} {levelname} {name}: {message}",
                "style": "{",
            },
            "json": {"class": "conductor_site.logs.JsonLine"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": form.lower()}},
        "root": {"handlers": ["stderr"], "level": level},
    }


def _without_links(text: str) -> str:
    """Without the secrets of one-time links: whoever reads the log must not be able to use them first."""
    return _LINK.sub(r"\1[redacted]", text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def _indented(text: str) -> str:
    return "\n".join(_INDENT + _CONTROL.sub(_escaped, line) for line in text.split("\n"))
