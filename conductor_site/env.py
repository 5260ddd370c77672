"""Reads settings from the environment; a bad value is refused with its name, never guessed."""

import ipaddress
import os
import pwd
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}
PATH_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")


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


def env_base_url(name: str) -> str:
    """The address under which people reach the site, without a slash at its end; "" where it is not set."""
    value = os.environ.get(name, "").rstrip("/")
    if value and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]+(/[A-Za-z0-9._~-]+)*", value):
        raise ImproperlyConfigured(f"{name}={value!r} is no address of a site: https://conductor.example.org")
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


def env_networks(name: str) -> list[str]:
    """Comma-separated addresses and networks (10.1.0.0/16); raises ImproperlyConfigured for anything else."""
    words = env_list(name, [])
    for word in words:
        try:
            ipaddress.ip_network(word)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}") from None
    return words


def env_prefix(name: str) -> str:
    """A path such as /conductor, or nothing; raises ImproperlyConfigured for what is no path."""
    value = os.environ.get(name, "").rstrip("/")
    if value and not PATH_PREFIX.fullmatch(value):
        raise ImproperlyConfigured(f"{name}={value!r} is not a path such as /conductor")
    return value


def env_secret(name: str, fallback_file: Path | None = None) -> str:
    """A secret from `name`, from the file in `name`_FILE, or from `fallback_file`, made at first use with mode 0600.

    Without a `fallback_file` there may be none: then it is empty.
    """
    if value := os.environ.get(name):
        return value
    named = os.environ.get(f"{name}_FILE")
    path = Path(named) if named else fallback_file
    if path is None:
        return ""
    try:
        if path == fallback_file and not path.exists():
            _make_secret(path)
        return path.read_text().strip()
    except OSError as error:
        whose = f"{name}_FILE names {path}" if named else f"{name} is kept in {path}"
        raise ImproperlyConfigured(f"{whose}, which {_user()} can't read or make ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name} is to be read from {path}, which holds no text") from None


@dataclass(frozen=True)
class Organisation:
    """An OpenID Connect provider. `roles`: group -> (slug of a lab, role) pairs."""

    issuer: str
    client_id: str
    client_secret: str
    name: str
    scopes: str
    algorithm: str
    groups_claim: str
    roles: dict[str, tuple[tuple[str, str], ...]]


def is_private(address: str) -> bool:
    """Whether nobody on the way can read what goes to this address: TLS, or this machine itself."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def env_organisation(roles: Collection[str]) -> Organisation | None:
    """The provider that CONDUCTOR_OIDC_ISSUER names, with the rest of CONDUCTOR_OIDC_*; None where there is none.

    `roles` are those that a group can give. Raises ImproperlyConfigured with the name of what is missing or wrong.
    """
    issuer = env_text("CONDUCTOR_OIDC_ISSUER", "")
    if not issuer:
        return None
    if not is_private(issuer):
        raise ImproperlyConfigured("CONDUCTOR_OIDC_ISSUER must begin with https://")
    client_id, secret = env_text("CONDUCTOR_OIDC_CLIENT_ID", ""), env_secret("CONDUCTOR_OIDC_CLIENT_SECRET")
    if not client_id or not secret:
        raise ImproperlyConfigured("CONDUCTOR_OIDC_ISSUER needs CONDUCTOR_OIDC_CLIENT_ID and _CLIENT_SECRET (or _FILE)")
    return Organisation(
        issuer=issuer,
        client_id=client_id,
        client_secret=secret,
        name=env_text("CONDUCTOR_OIDC_NAME", "your organisation"),
        scopes=env_text("CONDUCTOR_OIDC_SCOPES", "openid profile email"),
        algorithm=env_choice("CONDUCTOR_OIDC_ALGORITHM", "RS256", ["RS256", "RS384", "RS512", "ES256", "ES384"]),
        groups_claim=env_text("CONDUCTOR_OIDC_GROUPS_CLAIM", "groups"),
        roles=_group_roles(env_text_or_file("CONDUCTOR_OIDC_ROLES"), roles),
    )


def _group_roles(text: str, roles: Collection[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """`group=lab:role; …` as a table; a group's name may hold commas and equal signs, as those of LDAP do."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for entry in filter(None, map(str.strip, re.split("[;\n]", text))):
        group, _, place = entry.rpartition("=")
        lab, _, role = place.strip().rpartition(":")
        if not group.strip() or not lab or role not in roles:
            raise ImproperlyConfigured(
                f"CONDUCTOR_OIDC_ROLES: {entry!r} is not group=lab:role, with a role out of {', '.join(roles)}"
            )
        found[group.strip()] = (*found.get(group.strip(), ()), (lab, role))
    return found


def env_database(default: dict[str, Any]) -> dict[str, Any]:
    """The database of DATABASE_URL (or of the file in DATABASE_URL_FILE) as Django describes one; else `default`.

    PostgreSQL only: `postgresql://user:password@host:5432/name?sslmode=verify-full`. libpq itself reads the address, so
    that all it knows may stand there: several hosts, a socket's folder, a service, certificates. What is wrong is told
    without the address, which holds a password.
    """
    url = env_text_or_file("DATABASE_URL")
    if not url:
        return default
    scheme = url.partition("://")[0]
    if scheme not in ("postgresql", "postgres"):
        raise ImproperlyConfigured("DATABASE_URL must begin with postgresql:// (for SQLite set CONDUCTOR_SQLITE)")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise ImproperlyConfigured(
            "DATABASE_URL can't be read: write postgresql://user:password@host:5432/name, with odd signs as %xx"
        ) from None
    if not ("dbname" in given or "service" in given):
        raise ImproperlyConfigured("DATABASE_URL names no database: postgresql://user:password@host:5432/name")
    return postgresql(given)


# A host that vanished is noticed within about 20 s, whether we wait for its answer or it waits for ours.
PATIENCE: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # ms
    "application_name": "conductor",
}
# Waiting for a lock ends after as long as SQLite's busy timeout. A process that stalls in the middle of a transaction
# (they are milliseconds long) loses it, and with it the locks for which all others wait.
SESSION = "-c lock_timeout=20s -c idle_in_transaction_session_timeout=30s -c timezone=UTC"


def postgresql(given: dict[str, Any]) -> dict[str, Any]:
    """Django's description of the PostgreSQL that libpq's parameters `given` name; those go before ours."""
    rest = {name: value for name, value in given.items() if name not in ("dbname", "user", "password", "host", "port")}
    options = f"{SESSION} {rest.pop('options', '')}".strip()
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given.get("dbname", ""),
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": given.get("host", ""),
        "PORT": str(given.get("port", "")),
        "OPTIONS": PATIENCE | rest | {"options": options},
        "CONN_MAX_AGE": 60,  # without it the task queue is five times slower
        "CONN_HEALTH_CHECKS": True,  # the first request after the database came back is not the one that fails
    }


def env_text_or_file(name: str) -> str:
    """Text from the variable `name`, or from the file that `name`_FILE names; empty where neither is set."""
    if value := os.environ.get(name):
        return value.strip()
    path = os.environ.get(f"{name}_FILE")
    if not path:
        return ""
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        told = f"{name}_FILE names {path}, which {_user()} can't read ({error.strerror})"
        raise ImproperlyConfigured(told) from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name}_FILE names {path}, which holds no text") from None


def _user() -> str:
    """The user of this process, by name where it has one."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


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
