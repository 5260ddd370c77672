"""The API as a whole: every view says what a token must be for, and what the pages do can be done through it."""

from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from conductor_site.tests.test_access import rows

SCOPES = {"read", "operate", "decide", "walk", "heartbeat"}
# Tokens are got and given up with a password or a token of any scope.
WITHOUT_SCOPE = {"token", "one-token", "docs"}

# What a page can do -> what does the same through the API.
SAME = {
    "runs:new": "api:run-list",
    "runs:settings": "api:run-conf",
    "runs:preflight": "api:run-probe",
    "runs:upgrade": "api:run-upgrade",
    "runs:species": "api:run-species",
    "runs:drop": "api:run-drop-species",
    "runs:bring-back": "api:run-bring-species-back",
    "runs:export": "api:run-state-file",
    "runs:leave-alone": "api:run-state-file",
    "runs:stage": "api:phase-stage",
    "runs:restore": "api:run-restore",
    "runs:pause": "api:run-pause",
    "runs:resume": "api:run-resume",
    "runs:cancel": "api:run-cancel",
    "runs:archive": "api:run-archive",
    "runs:check-settings": "api:run-conf",
    "runs:check": "api:phase-check",
    "runs:retry": "api:phase-retry",
    "runs:skip": "api:phase-skip",
    "runs:again": "api:phase-run-again",
    "runs:exclude": "api:tilt-series-exclude",
    "runs:include": "api:tilt-series-include",
    "gates:decide": "api:gate-decide",
    "gates:consequence": "api:gate-consequence",
    "gates:ask-agents": "api:gate-ask-agent",
    "gates:delegate": "api:gate-delegate",
    "gates:reopen": "api:gate-reopen",
    "gates:withdraw": "api:gate-withdraw",
    "gates:prepare-again": "api:gate-retry-preparing",
    "gates:apply-again": "api:gate-retry-applying",
    "jobs:check": "api:target-check",
    "jobs:cancel": "api:job-cancel",
    "jobs:agent-try": "api:agent-try",
    "jobs:agent-switch": "api:agent-switch",
    "notices:mine": "api:my-notices",
    "notices:new-channel": "api:channel-list",
    "notices:channel": "api:channel-change",
    "notices:try-channel": "api:channel-try",
    "notices:retry": "api:delivery-retry",
    "account:new-token": "api:token",
    "account:revoke-token": "api:one-token",
}
# Signing in and out, and passwords: a program has a token instead; one that leaks must not take the account with it.
OF_A_BROWSER = {"login", "logout", "account:password", "forgotten"}
# Who belongs to a lab, and the tokens of its agents: that is for people who have signed in. A token that leaks must not
# let others in.
OF_PEOPLE = {
    "labs:add",
    "labs:member",
    "labs:password-link",
    "labs:agent-token",
    "labs:revoke-agent-token",
    "labs:close-agent",
    "labs:invite",
    "labs:revoke-invitation",
    "labs:new-agent",
}


def api_views() -> Iterator[tuple[str, Any, str]]:
    """Name, class and action (or method) of each view below /api/."""
    for pattern in patterns(get_resolver("conductor_site.api.urls")):
        view = getattr(pattern.callback, "cls", None)
        actions = getattr(pattern.callback, "actions", None) or {"": ""}
        for action in actions.values():
            yield str(pattern.name), view, action


def scopes_of(view: Any) -> set[str]:
    """What a token must be for, any one of which will do."""
    said = getattr(view, "scope", None) or ()
    return {said} if isinstance(said, str) else set(said)


def patterns(resolver: URLResolver) -> Iterator[URLPattern]:
    for each in resolver.url_patterns:
        yield from patterns(each) if isinstance(each, URLResolver) else [each]  # type: ignore[list-item]


def test_every_view_says_its_scope() -> None:
    for name, cls, action in api_views():
        if name not in WITHOUT_SCOPE:
            view = cls()
            view.action = action
            assert scopes_of(view) and scopes_of(view) <= SCOPES, name


def test_commands_need_more_than_reading() -> None:
    found = {}
    for name, cls, action in api_views():
        if name not in WITHOUT_SCOPE and (action == "create" or hasattr(cls, "operation")):
            view = cls()
            view.action = action
            found[name] = scopes_of(view)
    reading = {name for name, scopes in found.items() if "read" in scopes}
    assert reading == {"gate-consequence"}  # changes nothing
    assert found["gate-decide"] == {"decide"}
    assert found["run-list"] == {"operate"}


def test_what_a_page_does_the_api_does() -> None:
    pages = {row.name for row in rows() if row.method == "POST" and not row.name.startswith("api:")}
    assert pages - OF_A_BROWSER - OF_PEOPLE == set(SAME)
    assert set(SAME.values()) <= {row.name for row in rows() if row.method != "GET"}


def test_both_doors_refuse_and_allow_the_same_roles() -> None:
    answers = {row.name: row.answers for row in rows() if row.method != "GET"}
    for page, door in SAME.items():
        by_page, by_api = answers[page], answers[door]
        for role in range(2, 6):  # members of the lab
            assert (by_page[role] == 403) == (by_api[role] == 403), (page, role)
