"""The API against its own schema: whatever the schema allows, or just does not, is answered as the schema says."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from conductor_site.api.tokens import make_token
from conductor_site.tests.access_table import ROLES
from conductor_site.tests.world import World

pytestmark = pytest.mark.usefixtures("stores_of_the_world")
EXAMPLES = {"administrator": 3}  # what is asked of each operation, within its schema and beyond; others ask once
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# What an address is about -> the thing of the world that is asked for.
THINGS = {
    "agents": "agent",
    "asks": "ask",
    "channels": "channel",
    "decisions": "decision",
    "deliveries": "given_up",
    "events": "event",
    "evidence": "evidence",
    "gates": "gate",
    "jobs": "job",
    "labs": "lab",
    "phases": "phase",
    "pipelines": "pipeline",
    "runs": "run",
    "targets": "target",
    "tilt-series": "series",
}
SLOW_OUTSIDE = {"/api/v1/targets/{id}/check/"}  # starts processes: once a role is enough


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """Requests see the transaction of the test, so none of them may close its connection at its end."""
    edges = [request_started, request_finished]
    for edge in edges:
        edge.disconnect(close_old_connections)
    yield
    for edge in edges:
        edge.connect(close_old_connections)


@pytest.fixture
def schema(world: World) -> Any:
    headers = credentials("administrator")
    return schemathesis.openapi.from_wsgi("/api/schema/?format=json", WSGIHandler(), headers=headers)


def credentials(role: str) -> dict[str, str]:
    if role == "anonymous":
        return {}
    _, token = make_token(user=User.objects.get(username=role), name="schema")
    return {"Authorization": f"Token {token}"}


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_every_answer_is_as_the_schema_says(role: str, world: World, schema: Any) -> None:
    headers = credentials(role)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 50
    for operation in operations:
        for mode in GenerationMode if may_be_wrong(operation) else [GenerationMode.POSITIVE]:
            try_out(operation, mode, world, headers, 1 if operation.path in SLOW_OUTSIDE else EXAMPLES.get(role, 1))


def may_be_wrong(operation: Any) -> bool:
    """Whether it takes any input that its schema forbids; looking for such input in vain takes a second each time."""
    told = operation.definition.raw
    taken = [(each["schema"], each["in"]) for each in told.get("parameters", [])]
    free = [({"type": "string"}, "path"), ({"type": "string"}, "header")]  # any text is one
    return "requestBody" in told or any(each not in free for each in taken)


def try_out(operation: Any, mode: GenerationMode, world: World, headers: dict[str, str], count: int) -> None:
    """Ask so many times, mostly about a thing that is there; what was written is taken back."""
    asked = 0

    @seed(20260301)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Case) -> None:
        nonlocal asked
        asked += 1
        if asked % 2 or mode is GenerationMode.POSITIVE:
            point_at(case, world)
        with transaction.atomic():
            response = case.call(headers=headers)
            transaction.set_rollback(True)
        case.validate_response(response, checks=CHECKS)

    ask()
    assert asked, f"{operation.label} was not asked, {mode.value}"


def point_at(case: Case, world: World) -> None:
    """Let an address be about what is there."""
    thing = getattr(world, THINGS.get(case.path.split("/")[3], ""), None)
    for name in case.path_parameters or {}:
        if thing is not None and name in ("id", "uuid"):
            case.path_parameters[name] = str(getattr(thing, name))
