"""What accounts may be called."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import count

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from record.errors import BadInput
from record.services import AGENT_MARK
from record.values import unturned, visible_text

AGENT_PREFIX = "agent-"  # agents' user names begin so, and nobody else's
NAME_CHARS = 150
# Scripts that are written together with Latin letters; all others have letters that look like them.
_BESIDE_LATIN = frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL"})
_MARK = re.compile(re.escape(AGENT_MARK), re.IGNORECASE)


def checked_username(name: str) -> str:
    """The user name that a person may have. Raises BadInput; two that differ in case alone are one."""
    name = User.normalize_username(name.strip())
    try:
        User._meta.get_field("username").clean(name, None)
    except ValidationError as error:
        raise BadInput(" ".join(error.messages)) from error
    if name.lower().startswith(AGENT_PREFIX):
        raise BadInput(f"Names that begin with {AGENT_PREFIX} are for agents. Choose another.")
    if _mixes_scripts(name):
        raise BadInput(f"The user name {name} mixes letters of several scripts, which look alike. Keep to one.")
    if User.objects.filter(username__iexact=name).exists():
        raise BadInput(f"The user name {name} is taken. Choose another, or sign in with it.")
    return name


def shown_name(text: str) -> str:
    """A first or last name as it is kept: in one line, without marks that turn or hide text or make an agent of it."""
    name = unicodedata.normalize("NFKC", unturned(" ".join(text.split())))
    while _MARK.search(name):
        name = _MARK.sub("", name)
    return visible_text(" ".join(name.split()))[:NAME_CHARS]


def free_username(wish: str) -> str:
    """A user name that nobody has, as near as can be to what a directory calls the person."""
    kept = "".join(sign for sign in User.normalize_username(wish.strip()) if sign.isalnum() or sign in "@.+-_")[:140]
    kept = kept or "person"
    if kept.lower().startswith(AGENT_PREFIX):
        kept = f"x-{kept}"
    taken = {
        name.lower() for name in User.objects.filter(username__istartswith=kept).values_list("username", flat=True)
    }
    return next(name for name in _numbered(kept) if name.lower() not in taken)


def _mixes_scripts(name: str) -> bool:
    """Whether letters of another script that look like Latin ones stand among those (UTS 39, mixed scripts)."""
    scripts = {unicodedata.name(sign, "UNKNOWN").split(" ")[0] for sign in name if sign.isalpha()}
    return "LATIN" in scripts and not scripts <= _BESIDE_LATIN


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))
