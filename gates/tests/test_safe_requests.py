"""A GET never decides: no page or address of a gate changes anything by being opened."""

import pytest
from django.test import Client
from django.urls import reverse

from gates.models import Ballot, Gate
from gates.tests.doubles import ask
from gates.urls import urlpatterns
from record.models import Decision, Event, Lab
from record.tests.factories import People

NAMES = [pattern.name for pattern in urlpatterns if pattern.name not in ("evidence", "advice")]  # they have uuids


@pytest.mark.parametrize("method", ["get", "head", "options"])
@pytest.mark.parametrize("name", NAMES)
def test_opening_an_address_changes_nothing(client: Client, lab: Lab, people: People, name: str, method: str) -> None:
    gate = ask(lab)
    client.force_login(people.administrator)
    before = Gate.objects.values().get(), Event.objects.count()
    given = {"verdict": "approve", "threshold": "2.5", "seen_digest": gate.digest, "digest": gate.digest, "reason": "x"}

    for address in (reverse(f"gates:{name}", args=[gate.pk]), f"/api/v1/gates/{gate.pk}/{name}/"):
        response = getattr(client, method)(address, given)
        assert response.status_code < 500

    assert (Gate.objects.values().get(), Event.objects.count()) == before
    assert not Ballot.objects.exists() and not Decision.objects.exists()
