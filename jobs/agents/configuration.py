"""What an agent's configuration may say, by its backend. Pure; faults in words. Secrets are named, never written here.

command:      command (list of words; the first a path or a program's name), environment (names of our own variables
              that it may see), secret_files (variable -> path of the file that holds its value), home (folder; else an
              empty one), readable (folders that it may see in isolation), network (true), front_matter (false),
              pictures (true; files in its folder),
              envelope (what -> path of names: text, model, cost_usd, tokens_in, tokens_out), exit_codes (code ->
              outcome), stderr_says (outcome -> signs)
openai_http:  base_url, model, key_variable or key_file, pictures (false), parameters (added to the request),
              usd_per_million_in, usd_per_million_out
"""

from typing import Any

from jobs.agents.states import AskState
from record.redaction import redact
from record.shape import problems

_CLASSES = [AskState.FAILED, AskState.BLOCKED, AskState.INFRA, AskState.RATE_LIMITED, AskState.CONTENT_POLICY,
            AskState.TIMED_OUT, AskState.NO_STATUS]  # fmt: skip
_VARIABLE = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$"}
_PATH = {"type": "string", "pattern": "^/[^\\x00-\\x1f\\x7f]*$", "maxLength": 500}
_WORDS = {"type": "string", "minLength": 1, "maxLength": 500}
_PRICE = {"type": "number", "minimum": 0, "maximum": 1_000_000}
# Variables that are Conductor's own: no agent has any business with them.
OURS = ("CONDUCTOR_", "DATABASE_", "DJANGO_", "PG")

COMMAND: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["command"],
    "properties": {
        "command": {
            "type": "array", "minItems": 1, "maxItems": 100,
            "items": {"type": "string", "minLength": 1, "maxLength": 4000, "pattern": "^[^\\x00]+$"},
        },
        "environment": {"type": "array", "items": _VARIABLE, "uniqueItems": True, "maxItems": 40},
        "secret_files": {"type": "object", "propertyNames": _VARIABLE, "additionalProperties": _PATH},
        "home": _PATH,
        "readable": {"type": "array", "items": _PATH, "maxItems": 40},
        "network": {"type": "boolean"},
        "front_matter": {"type": "boolean"},
        "pictures": {"type": "boolean"},
        "envelope": {
            "type": "object", "required": ["text"], "additionalProperties": False,
            "properties": dict.fromkeys(("text", "model", "cost_usd", "tokens_in", "tokens_out"), _WORDS),
        },
        "exit_codes": {
            "type": "object", "propertyNames": {"pattern": "^[0-9]{1,3}$"}, "additionalProperties": {"enum": _CLASSES},
        },
        "stderr_says": {
            "type": "object", "propertyNames": {"enum": _CLASSES},
            "additionalProperties": {"type": "array", "items": _WORDS, "maxItems": 40},
        },
    },
}  # fmt: skip

OPENAI_HTTP: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["base_url", "model"],
    "oneOf": [{"required": ["key_variable"]}, {"required": ["key_file"]}],
    "properties": {
        "base_url": {"type": "string", "pattern": "^https?://[^\\s/@]+(/[^\\s@]*)?$", "maxLength": 500},
        "model": _WORDS,
        "key_variable": _VARIABLE,
        "key_file": _PATH,
        "pictures": {"type": "boolean"},
        "parameters": {"type": "object", "propertyNames": {"not": {"enum": ["messages", "model", "stream"]}}},
        "usd_per_million_in": _PRICE,
        "usd_per_million_out": _PRICE,
    },
}


def faults(configuration: Any, schema: dict[str, Any]) -> list[str]:
    """What is wrong with a configuration, in words; empty where it can be used."""
    if errors := problems(configuration, schema):
        return [f"{'.'.join(map(str, e.path)) or 'configuration'}: {_said(e)}" for e in errors[:5]]
    found = [
        f"{name} is Conductor's own variable; give the agent one of its own"
        for name in secret_names(configuration)
        if name.startswith(OURS)
    ]
    return found + [
        f"{where}: this looks like a secret; name a variable or a file that holds it"
        for where in _secrets(configuration, "")
    ]


def takes_pictures(backend: str, configuration: dict[str, Any]) -> bool:
    """Whether pictures are given to it with a question: programs find them as files, unless told otherwise."""
    return bool(configuration.get("pictures", backend == "command"))


def secret_names(configuration: dict[str, Any]) -> list[str]:
    """Names of our own variables that its job may see."""
    key = configuration.get("key_variable")
    return [*configuration.get("environment", []), *([key] if key else [])]


def _said(error: Any) -> str:
    if error.validator == "oneOf":
        return "say where the key is: key_variable or key_file, one of them"
    return str(error.message)[:300]


def _secrets(value: Any, where: str) -> list[str]:
    if isinstance(value, str):
        return [where] if redact(value) != value else []
    if isinstance(value, dict):
        return [found for name, each in value.items() for found in _secrets(each, f"{where}.{name}".lstrip("."))]
    if isinstance(value, list):
        return [found for at, each in enumerate(value, 1) for found in _secrets(each, f"{where}, word {at}")]
    return []
