"""Reads settings from the environment; a bad value is refused with its name, never guessed."""

import os
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}


def env_text(name: str, default: str) -> str:
    """Text from the variable `name`, or `default` where it is not set."""
    return os.environ.get(name, default)


def env_bool(name: str, default: bool) -> bool:
    """A yes or no; raises ImproperlyConfigured for anything else."""
    raw = os.environ.get(name)
    if raw is None:
        return default
    if raw.lower() in TRUE:
        return True
    if raw.lower() in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is neither yes nor no: use 1 or 0")


def env_choice(name: str, default: str, choices: list[str]) -> str:
    """One of `choices`, in either case; raises ImproperlyConfigured for anything else."""
    value = os.environ.get(name, default).upper()
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r} is none of {', '.join(choices)}")
    return value


def env_int(name: str, default: int, *, minimum: int = 0, maximum: int | None = None) -> int:
    """A whole number from `minimum` up to `maximum`; raises ImproperlyConfigured for anything else."""
    raw = os.environ.get(name)
    if raw is None:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number") from None
    if value < minimum:
        raise ImproperlyConfigured(f"{name}={value} is below {minimum}")
    if maximum is not None and value > maximum:
        raise ImproperlyConfigured(f"{name}={value} is above {maximum}")
    return value


def env_list(name: str, default: list[str]) -> list[str]:
    """Comma-separated words."""
    raw = os.environ.get(name)
    return default if raw is None else [word.strip() for word in raw.split(",") if word.strip()]


def env_secret(name: str, fallback_file: Path) -> str:
    """A secret from `name`, from the file in `name`_FILE, or from `fallback_file`, made at first use with mode 0600."""
    if value := os.environ.get(name):
        return value
    path = Path(os.environ.get(f"{name}_FILE") or fallback_file)
    if not path.exists():
        if path != fallback_file:
            raise ImproperlyConfigured(f"{name}_FILE names {path}, which is not there")
        _make_secret(path)
    return path.read_text().strip()


def _make_secret(path: Path) -> None:
    from django.core.management.utils import get_random_secret_key

    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(get_random_secret_key())
    try:
        os.link(scratch, path)  # two first starts at once: one secret wins, both read it
    except FileExistsError:
        pass
    finally:
        scratch.unlink()
