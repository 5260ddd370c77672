"""Agents' accounts: made by an administrator, for one lab; they come by tokens alone, and are shown as agents."""

from collections.abc import Collection

from django.contrib.auth.models import User
from django.db import transaction

from conductor_site.accounts.names import AGENT_PREFIX
from conductor_site.api.tokens import LONGEST_LIFE_H, make_token
from conductor_site.models import ApiToken
from record.access import Scope, kind_of
from record.errors import BadInput
from record.members import AGENT_ROLES, account_subject, add_role, may_manage
from record.models import ActorKind, AgentAccount, Lab
from record.services import AGENT_MARK, Author, record_event

NAME_CHARS = 60


def make_agent_account(*, lab: Lab, name: str, roles: Collection[str], author: Author) -> User:
    """An account for a program that works for the lab: `agent-NAME`, no password. Raises NotAllowed or BadInput.

    As a viewer it reads, as an operator it also starts and stops; as a reviewer it answers gates whose policy lets
    agents, and no others.
    """
    may_manage(author, lab.pk)
    if author.user is None:
        raise BadInput("An agent is made by a person, who answers for it.")
    username = _agent_username(name)
    if not roles or not set(roles) <= AGENT_ROLES:
        raise BadInput(f"Give the agent one or more of the roles {', '.join(sorted(AGENT_ROLES))}.")
    with transaction.atomic():
        if User.objects.filter(username__iexact=username).exists():
            raise BadInput(f"There is an agent {name} already, here or in another lab. Choose another name.")
        user = User(username=username, first_name=name.strip(), last_name=AGENT_MARK)
        user.set_unusable_password()
        user.save()
        AgentAccount.objects.create(user=user, lab=lab, made_by=author.user)
        for role in roles:
            add_role(lab=lab, user=user, role=role, author=author, reason="a new agent", verdict="make_agent")
    return user


def make_agent_token(
    *, agent: User, name: str, scopes: Collection[str], life_h: int, author: Author
) -> tuple[ApiToken, str]:
    """A token for an agent (row, secret); the secret can't be had again. Raises NotAllowed or BadInput."""
    may_manage(author, _lab_id(agent))
    if not name.strip() or not scopes or not set(scopes) <= set(Scope) or not 1 <= life_h <= LONGEST_LIFE_H:
        raise BadInput(f"A token has a name, one or more scopes, and 1 to {LONGEST_LIFE_H} hours to live.")
    if not agent.is_active:
        raise BadInput(f"The account {agent.get_username()} is closed. Open it again first.")
    with transaction.atomic():
        row, token = make_token(user=agent, name=name.strip()[:80], scopes=scopes, life_h=life_h, made_by=author.user)
        _tell(agent, f"{author.name} made the token {row.name} ({row.scope_names}) for {agent.get_username()}")
    return row, token


def revoke_agent_token(*, token: ApiToken, author: Author) -> None:
    """End a token of an agent. Raises NotAllowed or BadInput."""
    may_manage(author, _lab_id(token.user))
    with transaction.atomic():
        _tell(token.user, f"{author.name} revoked the token {token.name} of {token.user.get_username()}")
        token.delete()


def _lab_id(agent: User) -> int:
    if kind_of(agent) != ActorKind.AGENT:
        raise BadInput(f"{agent.get_username()} is no agent: people make their tokens themselves.")
    return agent.agent_account.lab_id


def _agent_username(name: str) -> str:
    username = AGENT_PREFIX + name.strip().lower().replace(" ", "-")
    allowed = all(sign.isascii() and (sign.isalnum() or sign in "-._") for sign in username)
    if not name.strip() or len(name) > NAME_CHARS or not allowed:
        raise BadInput(f"An agent's name has 1 to {NAME_CHARS} letters, digits, spaces, dots or hyphens.")
    return username


def _tell(agent: User, message: str) -> None:
    lab_id = agent.agent_account.lab_id
    record_event(lab_id=lab_id, kind="account.token", subject=account_subject(agent), message=message)
