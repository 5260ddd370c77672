"""People and labs for the tests of every app."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import transaction

from record.access import Role
from record.models import AgentAccount, Decision, Door, Lab, Membership
from record.services import Author, Ruling, Subject, record_decision

PASSWORD = "a long enough password"


@dataclass(frozen=True)
class People:
    """One person a role, and one who belongs to another lab; `people["viewer"]` is `people.viewer`."""

    viewer: User
    operator: User
    reviewer: User
    administrator: User
    outsider: User

    def __getitem__(self, username: str) -> User:
        return getattr(self, username)


def make_lab(slug: str = "tomography") -> Lab:
    return Lab.objects.create(name=slug.replace("-", " ").capitalize(), slug=slug)


def make_person(username: str, lab: Lab, *roles: str) -> User:
    """A person of that name, with PASSWORD, who has each of `roles` in `lab`."""
    person = User.objects.create_user(username, password=PASSWORD)
    Membership.objects.bulk_create(Membership(lab=lab, user=person, role=role) for role in roles)
    return person


def make_agent_user(name: str, lab: Lab, *roles: str) -> User:
    """The account `agent-NAME`, marked as an agent's, with each of `roles` in `lab`."""
    agent = make_person(f"agent-{name}", lab, *roles)
    AgentAccount.objects.create(user=agent, lab=lab, made_by=agent)
    return agent


def make_people(lab: Lab) -> People:
    """Everyone of `lab`, one a role; the outsider is administrator of a lab of their own."""
    members = {str(role): make_person(role, lab, role) for role in Role}
    return People(**members, outsider=make_person("outsider", make_lab("other"), Role.ADMINISTRATOR))


def make_subject(label: str = "phase align", kind: str = "phase") -> Subject:
    return Subject(kind, uuid4(), label, uuid4())


def decide(
    lab: Lab, user: User, *, subject: Subject | None = None, verdict: str = "approve", **ruling: Any
) -> Decision:
    """Append one decision by `user` to the chain of `lab`, in a transaction of its own."""
    with transaction.atomic():
        return record_decision(
            lab_id=lab.pk,
            subject=subject or make_subject(),
            author=Author.person(user, Door.WEB),
            ruling=Ruling(verdict, **ruling),
        )
