"""Notices by the API: the same services, the same refusals."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from record.models import Channel, Delivery, Lab, PersonalNotices
from record.tests.factories import People
from record.tests.notices_scene import happen, make_channel

pytestmark = pytest.mark.django_db


def call(client: Client, method: str, name: str, body: Any = None, **parameters: Any) -> Any:
    url = reverse(f"api:{name}", kwargs=parameters or None)
    return client.generic(method, url, json.dumps(body or {}), content_type="application/json")


def test_a_channel_is_made_changed_and_tried(client: Client, people: People, lab: Lab) -> None:
    client.force_login(people.administrator)
    given = {"lab": lab.slug, "name": "alarms", "kind": "email", "address": "a@example.org", "topics": ["escalations"]}
    made = call(client, "POST", "channel-list", given)
    assert made.status_code == 201
    assert made.headers["Location"].endswith(f"/channels/{made.json()['id']}/")
    changed = call(client, "POST", "channel-change", {"address": "b@example.org"}, pk=made.json()["id"])
    assert (changed.json()["address"], changed.json()["topics"]) == ("b@example.org", ["escalations"])
    tried = call(client, "POST", "channel-try", pk=made.json()["id"])
    assert (tried.status_code, tried.json()["state"], tried.json()["recipient"]) == (201, "pending", "b@example.org")


def test_only_who_may_change_it_sees_the_whole_address_of_a_webhook(client: Client, people: People, lab: Lab) -> None:
    given = {"lab": lab.slug, "name": "hook", "kind": "webhook", "address": "https://h.example.org:8443/T0K3N?k=v"}
    client.force_login(people.administrator)
    made = call(client, "POST", "channel-list", given)
    assert made.json()["address"] == given["address"]
    detail, pages = reverse("api:channel-detail", args=[made.json()["id"]]), [reverse("notices:channels")]
    pages += [reverse("api:channel-list"), reverse("api:event-list"), detail]
    for someone, whole in ((people.administrator, True), (people.viewer, False), (people.operator, False)):
        client.force_login(someone)
        shown = [client.get(url).text for url in pages]
        assert [("T0K3N" in text) for text in shown] == [whole, whole, False, whole]
        assert all("https://h.example.org:8443/" in text for text in shown)
        assert (client.get(detail).json()["address"] == "https://h.example.org:8443/…") is not whole


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"address": "nobody"}, "nobody is no e-mail address"),
        ({"topics": ["gossip"]}, "gossip"),
        ({"secret": "x"}, "There is no such field"),
    ],
)
def test_what_a_channel_can_not_be(given: dict[str, Any], words: str, client: Client, people: People, lab: Lab) -> None:
    client.force_login(people.administrator)
    refused = call(client, "POST", "channel-change", given, pk=make_channel(lab).pk)
    assert refused.status_code == 400 and words in refused.text
    assert Channel.objects.get().address == "lab@example.org"


def test_what_was_given_up_is_sent_again_once(client: Client, people: People, lab: Lab) -> None:
    make_channel(lab)
    happen(lab)
    Delivery.objects.update(state="given_up", ended_at="2026-11-30T12:00Z", error="550 no such user")
    client.force_login(people.operator)
    (row,) = client.get(reverse("api:delivery-list"), {"state": "given_up"}).json()["results"]
    assert (row["kind"], row["error"], row["channel"]) == ("run.finish", "550 no such user", f"{lab.slug}/room")
    assert call(client, "POST", "delivery-retry", pk=row["id"]).json()["state"] == "pending"
    assert call(client, "POST", "delivery-retry", pk=row["id"]).status_code == 409


def test_what_one_hears_of(client: Client, people: People) -> None:
    people.viewer.email = "viewer@example.org"
    people.viewer.save()
    client.force_login(people.viewer)
    assert "gate.open" in client.get(reverse("api:my-notices")).json()["kinds"]  # proposed, not kept
    assert not PersonalNotices.objects.exists()
    wishes = {"kinds": ["run.finish"], "digest": True, "digest_at": "07:30:00", "time_zone": "Europe/Zurich"}
    kept = call(client, "PUT", "my-notices", wishes)
    assert kept.status_code == 200 and kept.json().items() >= wishes.items()
    zone, hours = {"time_zone": "Mars/Olympus"}, {"remind_after_h": 0}
    for wrong in ({"kinds": ["job.start"]}, {"kinds": []} | zone, {"kinds": []} | hours):
        assert call(client, "PUT", "my-notices", wrong).status_code == 400
    assert PersonalNotices.objects.get().kinds == ["run.finish"]
