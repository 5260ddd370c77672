"""Who may answer a gate, and when: pure functions over plain facts, the same for pages, API, admin and command line.

A policy as it is written in a pipeline, with its defaults:

    who: reviewer            # a role (reviewer: everyone who may decide; administrator), or a list of user names
    quorum: 1                # ballots that must agree in verdict and answers
    requester_may: true      # may the person for whom the gate was asked answer it
    agents_may: false        # may a program answer under its own token
    reason: on_difference    # always, on_difference (from the suggestion) or never; a refusal always owes one
    due_s: null              # seconds from opening until it times out
    on_timeout: block        # or a verdict, which takes the suggestion; or {verdict: approve, answers: {...}}
    escalate_after_s: null   # seconds from opening until others are asked
    escalate_to: []          # a role or user names, who may then answer too
    delegable: true          # may somebody who may answer hand it to another who may decide
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from gates.errors import Refusal
from record.access import Ability, Role, roles_with
from record.errors import BadInput
from record.models import ActorKind
from record.shape import problems

BLOCK = "block"
Whom = str | tuple[str, ...]

_SECONDS = {"type": ["integer", "null"], "minimum": 1, "maximum": 366 * 24 * 3600}
_NAMES = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 150}, "uniqueItems": True}
_WHOM = {"oneOf": [{"enum": [Role.REVIEWER.value, Role.ADMINISTRATOR.value]}, _NAMES]}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "who": {"oneOf": [*_WHOM["oneOf"][:1], _NAMES | {"minItems": 1}]},
        "quorum": {"type": "integer", "minimum": 1, "maximum": 20},
        "requester_may": {"type": "boolean"},
        "agents_may": {"type": "boolean"},
        "reason": {"enum": ["always", "on_difference", "never"]},
        "due_s": _SECONDS,
        "on_timeout": {
            "oneOf": [
                {"type": "string", "minLength": 1, "maxLength": 60},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["verdict", "answers"],
                    "properties": {"verdict": {"type": "string", "maxLength": 60}, "answers": {"type": "object"}},
                },
            ]
        },
        "escalate_after_s": _SECONDS,
        "escalate_to": _WHOM,
        "delegable": {"type": "boolean"},
    },
}


@dataclass(frozen=True)
class Timeout:
    """What is taken for an answer when time runs out; `answers` None: those that are suggested."""

    verdict: str
    answers: dict[str, Any] | None


@dataclass(frozen=True)
class Policy:
    """One gate's policy, read and checked."""

    who: Whom = Role.REVIEWER.value
    quorum: int = 1
    requester_may: bool = True
    agents_may: bool = False
    reason: str = "on_difference"
    due_s: int | None = None
    on_timeout: Timeout | None = None
    escalate_after_s: int | None = None
    escalate_to: Whom = ()
    delegable: bool = True

    @classmethod
    def read(cls, given: dict[str, Any]) -> "Policy":
        """The policy that `given` describes; BadInput (code bad_policy) with every fault."""
        found = faults(given)
        if found:
            raise BadInput(f"The gate's policy can't be used: {'; '.join(found)}.", code="bad_policy")
        values = dict(given)
        for name in ("who", "escalate_to"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        values["on_timeout"] = _timeout(given.get("on_timeout", BLOCK))
        return cls(**values)


def faults(given: dict[str, Any], *, verdicts: Collection[str] = ()) -> list[str]:
    """What is wrong with a policy, in words; empty where it can be used. With the protocol's `verdicts`, the one that a
    time-out stands for must be among them."""
    errors = problems(given, SCHEMA)
    found = [f"{'.'.join(map(str, error.path)) or 'policy'}: {error.message}"[:300] for error in errors]
    if not found and given.get("escalate_after_s") and not given.get("escalate_to"):
        found.append("escalate_after_s: say in escalate_to who is asked then")
    who = given.get("who")
    if not found and isinstance(who, list) and given.get("quorum", 1) > len(who):
        found.append(f"quorum: {given['quorum']} ballots can't come from {len(who)} people")
    default = None if found else _timeout(given.get("on_timeout", BLOCK))
    if default and verdicts and default.verdict not in verdicts:
        found.append(f"on_timeout: {default.verdict!r} is none of block, {', '.join(verdicts)}")
    if default and not given.get("due_s"):
        found.append("on_timeout: say in due_s when time runs out")
    return found


def _timeout(given: str | dict[str, Any]) -> Timeout | None:
    if given == BLOCK:
        return None
    if isinstance(given, str):
        return Timeout(given, None)
    return Timeout(given["verdict"], given["answers"])


@dataclass(frozen=True)
class Facts:
    """What the policy looks at in the person who wants to answer. `roles` are those in the gate's lab."""

    username: str
    roles: frozenset[str]
    kind: str = ActorKind.PERSON
    is_requester: bool = False
    is_delegate: bool = False
    escalated: bool = False


def check(policy: Policy, facts: Facts) -> Refusal | None:
    """Why this person may not answer, or None. Delegation and escalation widen who may; they lift no other rule."""
    if not facts.roles & frozenset(roles_with(Ability.DECIDE)):
        return _no("To answer gates you need the role reviewer or administrator in this lab. Ask an administrator.")
    if facts.kind == ActorKind.AGENT and not policy.agents_may:
        return _no("This gate is for people: its policy doesn't let agents answer.")
    if facts.is_requester and not policy.requester_may:
        return _no("You asked for this gate, and its policy wants somebody else to answer it.")
    escalated = facts.escalated and _among(policy.escalate_to, facts)
    if not (_among(policy.who, facts) or facts.is_delegate or escalated):
        return _no(f"This gate is for {whom_text(policy.who)}. One of them may delegate it to you.")
    return None


def reason_owed(
    policy: Policy, *, needs_reason: bool, label: str, differing: list[str], replaces: str = ""
) -> str | None:
    """Why a reason must be given, in words, or None. `differing` names what departs from the suggestion, `replaces`
    the earlier decision that this one would supersede."""
    if replaces:
        return f"Your answer replaces an earlier decision ({replaces}): say why."
    if needs_reason:
        return f"“{label}” needs a reason: it is what the people who made this will read."
    if policy.reason == "always":
        return "This gate's policy wants a reason with every answer."
    if policy.reason == "on_difference" and differing:
        shown = ", ".join(differing[:5]) + (" …" if len(differing) > 5 else "")
        return f"Your answer differs from what is suggested ({shown}): say why."
    return None


def whom_text(whom: Whom) -> str:
    """Whom a rule names, in words."""
    if isinstance(whom, str):
        return "reviewers and administrators" if whom == Role.REVIEWER else f"{whom}s"
    return ", ".join(whom)


def _among(whom: Whom, facts: Facts) -> bool:
    if isinstance(whom, tuple):
        return facts.username in whom
    return whom == Role.REVIEWER or whom in facts.roles


def _no(message: str) -> Refusal:
    return Refusal("not_allowed", message)
