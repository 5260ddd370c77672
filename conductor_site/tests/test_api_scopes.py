"""Every address of the API with a token of every scope: what it is for is done, everything else is refused."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from conductor_site.api.tokens import make_token
from conductor_site.tests.test_access import Row, body_of, rows, send, url_of
from conductor_site.tests.world import World
from gates.models import Gate
from record.access import Role, Scope
from record.models import Decision, Event
from record.tests.factories import make_agent_user

pytestmark = pytest.mark.usefixtures("stores_of_the_world")
READERS = {"read", "operate", "decide", "walk"}
ANY = set(Scope)

# Which scopes of an administrator's token do what an address is for; every other address of the API reads.
COMMANDS: dict[str, set[str]] = {
    "api:target-check": {"operate"},
    "api:job-cancel": {"operate"},
    "api:agent-try": {"decide"},
    "api:agent-switch": {"decide"},
    "api:channel-list": {"decide"},
    "api:channel-change": {"decide"},
    "api:channel-try": {"decide"},
    "api:delivery-retry": {"operate"},
    "api:my-notices": {"operate", "decide"},
    "api:gate-decide": {"decide"},
    "api:gate-suggest": {"decide"},
    "api:gate-consequence": READERS,
    "api:gate-evidence": {"operate", "decide"},
    "api:gate-ask-agent": {"operate", "decide"},
    "api:gate-delegate": {"decide"},
    "api:gate-reopen": {"decide"},
    "api:gate-withdraw": {"operate", "decide"},
    "api:gate-retry-preparing": {"operate", "decide"},
    "api:gate-retry-applying": {"operate", "decide"},
    "api:run-list": {"operate"},
    "api:run-pause": {"operate"},
    "api:run-resume": {"operate"},
    "api:run-cancel": {"operate"},
    "api:run-archive": {"operate"},
    "api:run-conf": {"operate"},
    "api:run-probe": {"operate"},
    "api:run-state-file": {"operate"},
    "api:run-upgrade": {"operate"},
    "api:run-species": {"operate"},
    "api:run-drop-species": {"decide"},
    "api:run-bring-species-back": {"decide"},
    "api:run-restore": {"operate"},
    "api:phase-stage": {"operate"},
    "api:phase-check": {"operate"},
    "api:phase-retry": {"operate"},
    "api:phase-skip": {"operate"},
    "api:phase-run-again": {"operate"},
    "api:tilt-series-exclude": {"decide"},
    "api:tilt-series-include": {"decide"},
    # a token may always be given up, and one is got with a password, whatever is sent beside it
    "api:token": ANY,
    "api:one-token": ANY,
    "api:nowhere": READERS,
}


def api_rows() -> list[Row]:
    """Every address that takes a token: the page on which the API is tried is for people who have signed in."""
    return [row for row in rows() if row.name.startswith("api:") and row.name != "api:docs"]


def scopes_for(row: Row) -> set[str]:
    if row.name == "api:schema":
        return ANY  # how to speak to the API is no lab's secret
    return READERS if row.method == "GET" else COMMANDS[row.name]


def test_the_table_names_every_command() -> None:
    assert {row.name for row in api_rows() if row.method != "GET"} == set(COMMANDS)


def answer_to(row: Row, world: World, user: User, scopes: list[str]) -> Any:
    """The answer to a token of these scopes; what the request wrote is taken back."""
    with transaction.atomic():
        _, token = make_token(user=user, name="test", scopes=scopes)
        client = Client(headers={"Authorization": f"Token {token}"})
        answer = send(client, row, url_of(row, world), body_of(row, world))
        transaction.set_rollback(True)
    return answer


@pytest.mark.parametrize("row", api_rows(), ids=lambda row: f"{row.method}-{row.name}")
def test_row(row: Row, world: World) -> None:
    owner = User.objects.get(username="administrator")
    if row.name == "api:gate-suggest":  # people answer
        owner = make_agent_user("reader", world.lab, Role.REVIEWER)
    whole = answer_to(row, world, owner, list(Scope)).status_code
    found = {scope: answer_to(row, world, owner, [scope]).status_code for scope in Scope}
    assert found == {scope: whole if scope in scopes_for(row) else 403 for scope in Scope}
    assert whole != 403


@pytest.mark.parametrize("row", api_rows(), ids=lambda row: f"{row.method}-{row.name}")
def test_a_token_gives_its_owner_no_more_than_their_roles(row: Row, world: World) -> None:
    owner = User.objects.get(username="viewer")
    assert answer_to(row, world, owner, list(Scope)).status_code in (row.answers[2], 204)


# What an agent may, that has every role there is: read and operate; never what is for people.
FOR_PEOPLE = {
    "api:gate-decide",  # its gate's policy does not let agents
    "api:agent-try",
    "api:agent-switch",
    "api:channel-list",
    "api:channel-change",
    "api:channel-try",
    "api:gate-delegate",
    "api:gate-reopen",
    "api:run-drop-species",
    "api:run-bring-species-back",
    "api:tilt-series-exclude",
    "api:tilt-series-include",
}


@pytest.mark.parametrize("row", api_rows(), ids=lambda row: f"{row.method}-{row.name}")
def test_an_agent_does_nothing_that_is_for_people(row: Row, world: World) -> None:
    agent = make_agent_user("reader", world.lab, *Role)
    status = answer_to(row, world, agent, list(Scope)).status_code
    for_people = row.name in FOR_PEOPLE and row.method != "GET"
    # 409: it may, and the thing is not in a state for it
    assert status == 403 if for_people else status < 300 or status in (404, 409), status


def test_an_agent_decides_where_the_policy_lets_it_and_is_shown_as_one(world: World, client: Client) -> None:
    agent = make_agent_user("reader", world.lab, Role.REVIEWER)
    Gate.objects.filter(pk=world.gate.pk).update(policy={"agents_may": True})
    _, token = make_token(user=agent, name="reader", scopes=["decide"])
    robot = Client(headers={"Authorization": f"Token {token}"})
    assert [gate["id"] for gate in robot.get("/api/v1/gates/waiting/").json()] == [world.gate.pk]
    body = {"verdict": "approve", "answers": {"shift": 4.5}, "digest": "d" * 64}
    answer = robot.post(f"/api/v1/gates/{world.gate.pk}/decide/", body, content_type="application/json")
    assert answer.status_code == 200, answer.json()

    decision = Decision.objects.get(uuid=answer.json()["decision"])
    assert (decision.actor_kind, decision.door) == ("agent", "api")
    shown = robot.get(f"/api/v1/decisions/{decision.uuid}/").json()
    assert (shown["actor_kind"], shown["actor_name"]) == ("agent", "agent-reader (agent)")
    ballots = robot.get(f"/api/v1/gates/{world.gate.pk}/").json()["ballots"]
    assert ballots[-1]["voter_kind"] == "agent"
    assert "agent-reader (agent)" in Event.objects.get(kind="gate.decide", decision=decision).message
    client.force_login(User.objects.get(username="viewer"))
    for page in ("/decisions/", f"/decisions/{decision.uuid}/", f"/gates/{world.gate.pk}/"):
        assert "agent-reader (agent)" in client.get(page).content.decode(), page


def test_at_a_gate_for_people_an_agent_is_told_so(world: World) -> None:
    agent = make_agent_user("reader", world.lab, Role.REVIEWER)
    _, token = make_token(user=agent, name="reader", scopes=["decide"])
    robot = Client(headers={"Authorization": f"Token {token}"})
    assert robot.get("/api/v1/gates/waiting/").json() == []
    may = robot.get(f"/api/v1/gates/{world.gate.pk}/").json()["may_answer"]
    assert (may["allowed"], may["code"]) == (False, "not_allowed")
    assert "for people" in may["message"]
