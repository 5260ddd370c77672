"""The pages about notices: what a person hears, channels, what was sent."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from record.models import Channel, Delivery, Event, Lab, PersonalNotices
from record.notices.forms import kind_choices
from record.notices.secrets import keep_secret, new_webhook_key, variable_of
from record.notices.services import Wishes, save_wishes
from record.tests.factories import People
from record.tests.notices_scene import happen, make_channel

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(client: Client, people: People) -> Client:
    client.force_login(people.administrator)
    return client


def test_every_notable_kind_stands_under_a_heading_in_words() -> None:
    headings = [heading for heading, _ in kind_choices()]
    assert all(heading[0].isupper() for heading in headings), headings


def test_what_i_hear_is_kept_and_shown_again(client: Client, people: People) -> None:
    people.viewer.email = "viewer@example.org"
    people.viewer.save()
    client.force_login(people.viewer)
    assert "So far you hear nothing" in client.get(reverse("notices:mine")).text
    given = {
        "kinds": ["run.finish", "phase.fail"],
        "digest": "1",
        "digest_at": "07:30",
        "quiet_from": "22:00",
        "quiet_until": "07:00",
        "time_zone": "Europe/Zurich",
        "remind_after_h": "6",
    }
    assert client.post(reverse("notices:mine"), given).status_code == 302
    row = PersonalNotices.objects.get(user=people.viewer)
    assert (row.kinds, row.digest, row.remind_after_h) == (["run.finish", "phase.fail"], True, 6)
    page = client.get(reverse("notices:mine")).text
    assert "So far you hear nothing" not in page
    assert 'value="07:30"' in page and 'value="Europe/Zurich" selected' in page


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kinds": ["run.finish"], "time_zone": "UTC"}, "no e-mail address"),
        ({"quiet_from": "22:00", "time_zone": "UTC"}, "beginning and an end"),
        ({"time_zone": "Mars/Olympus"}, "Select a valid choice"),
        ({"kinds": ["job.start"], "time_zone": "UTC"}, "Select a valid choice"),
        ({"remind_after_h": "0", "time_zone": "UTC"}, "greater than or equal to 1"),
    ],
)
def test_what_can_not_be_kept_comes_back_with_a_word(
    given: dict[str, Any], words: str, client: Client, people: People
) -> None:
    client.force_login(people.viewer)
    answer = client.post(reverse("notices:mine"), given)
    assert answer.status_code == 400 and words in answer.text
    assert not PersonalNotices.objects.exists()


def test_a_channel_is_made_tried_and_changed(admin: Client, lab: Lab, settings: Any, tmp_path: Any) -> None:
    settings.NOTICE_SECRETS = tmp_path
    given: dict[str, Any] = {"name": "hooks", "kind": "webhook", "address": "https://example.org/x", "enabled": "on"}
    given |= {"topics": ["escalations"]}
    made = admin.post(reverse("notices:new-channel", args=[lab.slug]), given)
    channel = Channel.objects.get()
    assert made.headers["Location"] == reverse("notices:channel", args=[channel.pk])
    page = admin.get(made.headers["Location"]).text
    assert f"manage.py notice_secret {lab.slug}/hooks" in page
    keep_secret(variable_of(channel), new_webhook_key())
    assert "Its secret is missing" not in admin.get(made.headers["Location"]).text
    admin.post(reverse("notices:try-channel", args=[channel.pk]))
    (delivery,) = Delivery.objects.all()
    assert (delivery.event.kind, delivery.state) == ("notice.test", "pending")
    assert "This is a test" in admin.get(made.headers["Location"]).text
    admin.post(reverse("notices:channel", args=[channel.pk]), given | {"topics": ["conductor-log"], "enabled": ""})
    channel.refresh_from_db()
    assert (channel.topics, channel.enabled) == (["conductor-log"], False)
    assert Event.objects.filter(kind="channel.change").count() == 2


def test_a_refused_channel_comes_back_as_it_was_typed(admin: Client, lab: Lab) -> None:
    channel = make_channel(lab)
    given = {"name": "room", "kind": "email", "address": "nobody", "enabled": "on"}
    answer = admin.post(reverse("notices:channel", args=[channel.pk]), given)
    assert answer.status_code == 400
    assert "nobody is no e-mail address" in answer.text and 'value="nobody"' in answer.text
    channel.refresh_from_db()
    assert channel.address == "lab@example.org"


def test_no_secret_is_ever_on_a_page(admin: Client, lab: Lab, settings: Any, tmp_path: Any) -> None:
    settings.NOTICE_SECRETS = tmp_path
    channel = make_channel(lab, "hooks", "webhook", address="https://example.org/x")
    key = new_webhook_key()
    keep_secret(variable_of(channel), key)
    pages = [reverse("notices:channels"), reverse("notices:channel", args=[channel.pk]), reverse("notices:deliveries")]
    assert [url for url in pages if key in admin.get(url).text] == []


def test_what_was_given_up_is_counted_shown_and_sent_again(client: Client, people: People, lab: Lab) -> None:
    make_channel(lab)
    happen(lab, "<b>run</b> finished")
    Delivery.objects.update(state="given_up", ended_at="2026-11-30T12:00Z", error="550 <no> such user")
    client.force_login(people.operator)
    assert 'class="failed-count"' in client.get(reverse("notices:mine")).text
    page = client.get(reverse("notices:deliveries"), {"state": "given_up", "channel": "room"}).text
    assert "&lt;b&gt;run&lt;/b&gt; finished" in page and "550 &lt;no&gt; such user" in page
    client.post(reverse("notices:retry", args=[Delivery.objects.get().pk]))
    assert Delivery.objects.get().state == "pending"
    assert "Nothing has been sent" in client.get(reverse("notices:deliveries"), {"state": "given_up"}).text


def test_lists_need_a_constant_number_of_queries(
    admin: Client, lab: Lab, people: People, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        make_channel(lab, f"room{number}")
    people.reviewer.email = "r@example.org"
    people.reviewer.save()
    save_wishes(user=people.reviewer, wishes=Wishes(kinds=["run.finish"]))
    happen(lab)
    for name in ("notices:channels", "notices:deliveries"):
        with django_assert_max_num_queries(14):
            admin.get(reverse(name))
