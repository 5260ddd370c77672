"""What accounts may be called."""

from collections.abc import Iterator
from itertools import count

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from record.errors import BadInput

AGENT_PREFIX = "agent-"  # agents' user names begin so, and nobody else's


def checked_username(name: str) -> str:
    """The user name that a person may have. Raises BadInput; two that differ in case alone are one."""
    name = User.normalize_username(name.strip())
    try:
        User._meta.get_field("username").clean(name, None)
    except ValidationError as error:
        raise BadInput(" ".join(error.messages)) from error
    if name.lower().startswith(AGENT_PREFIX):
        raise BadInput(f"Names that begin with {AGENT_PREFIX} are for agents. Choose another.")
    if User.objects.filter(username__iexact=name).exists():
        raise BadInput(f"The user name {name} is taken. Choose another, or sign in with it.")
    return name


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


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}-{number}" for number in count(2))
