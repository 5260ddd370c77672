"""The outbox: what is owed, to whom, when; claimed once; tried again; given up visibly."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import transaction
from django.urls import get_script_prefix, reverse, set_script_prefix
from django.utils import timezone
from django_q.models import OrmQ

from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import Channel, Delivery, Door, Event, Lab, Membership, PersonalNotices, SenderTurn
from record.notices import compose, sending
from record.notices.compose import link_to
from record.notices.services import Wishes, retry_delivery, save_channel, save_wishes, try_channel
from record.notices.sights import Sight
from record.notifiers import Where
from record.services import Author
from record.tests.factories import People, make_lab
from record.tests.notices_scene import happen, make_channel, send_now, states
from record.tests.servers.smtp import MailHost

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def reader(people: People) -> Any:
    """A person with an address."""
    people.reviewer.email = "reviewer@example.org"
    people.reviewer.save()
    return people.reviewer


def author(user: Any) -> Author:
    return Author.person(user, Door.WEB)


@pytest.mark.django_db(transaction=True)
class TestOwing:
    def test_one_delivery_an_event_and_channel_that_wants_its_topic(self, lab: Lab) -> None:
        wants = make_channel(lab)
        make_channel(lab, "other", topics=["escalations"])
        make_channel(lab, "off", enabled=False)
        make_channel(make_lab("elsewhere"))
        event = happen(lab)
        assert [(each.event, each.channel) for each in Delivery.objects.all()] == [(event, wants)]

    def test_routine_is_never_sent(self, lab: Lab, django_assert_num_queries: Any) -> None:
        make_channel(lab)
        with django_assert_num_queries(1):
            happen(lab, kind="job.start")
        assert states() == []

    def test_what_is_rolled_back_is_not_owed(self, lab: Lab) -> None:
        make_channel(lab)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            happen(lab)
            raise ZeroDivisionError
        assert (states(), Event.objects.count()) == ([], 0)

    def test_a_few_queries_however_many_members(
        self, lab: Lab, people: People, reader: Any, django_assert_num_queries: Any
    ) -> None:
        for user in (people.viewer, people.operator, people.administrator):
            user.email = f"{user.username}@example.org"
            user.save()
            save_wishes(user=user, wishes=Wishes(kinds=["run.finish"]))
        save_wishes(user=reader, wishes=Wishes(kinds=["run.finish"]))
        Membership.objects.create(lab=lab, user=reader, role="operator")  # two roles, one notice
        make_channel(lab)
        with transaction.atomic(), django_assert_num_queries(4):
            happen(lab)
        assert len(states()) == 5


@pytest.mark.django_db(transaction=True)
class TestSending:
    def test_a_task_is_nudged_once_and_only_when_something_is_due(
        self, lab: Lab, mail_host: MailHost, django_assert_num_queries: Any
    ) -> None:
        with django_assert_num_queries(1):
            assert sending.nudge_sender() == 0
        make_channel(lab)
        happen(lab)
        assert (sending.nudge_sender(), sending.nudge_sender()) == (1, 0)
        assert OrmQ.objects.count() == 1
        assert sending.send_due() == 1
        assert sending.nudge_sender() == 0

    def test_one_sender_at_a_time(self, lab: Lab, mail_host: MailHost) -> None:
        make_channel(lab)
        happen(lab)
        SenderTurn.objects.create(holder=uuid4(), until=timezone.now() + timedelta(seconds=60))
        assert (sending.send_due(), sending.nudge_sender()) == (0, 0)
        SenderTurn.objects.update(until=timezone.now())
        assert (sending.send_due(), len(mail_host.box.letters)) == (1, 1)

    def test_a_word_that_comes_too_late_changes_nothing(self, lab: Lab, mail_host: MailHost) -> None:
        make_channel(lab)
        happen(lab)
        (delivery,) = Delivery.objects.all()
        first = sending._claim(delivery)
        assert first is not None
        parcel = sending._pack(first)
        assert parcel is not None
        assert sending._claim(delivery) is None  # it is being sent
        Delivery.objects.update(due_at=timezone.now())
        assert sending._claim(Delivery.objects.get()) is not None
        assert sending._write(parcel, sending.Sent("late")) == 0
        delivery.refresh_from_db()
        assert (delivery.state, delivery.doubtful, delivery.remote_id) == ("sending", True, "")

    def test_given_up_after_three_days_and_sent_again_when_asked(
        self, lab: Lab, people: People, mail_host: MailHost
    ) -> None:
        make_channel(lab)
        mail_host.stop()
        with time_machine.travel(NOON, tick=False):
            happen(lab)
            send_now()
            assert states() == ["pending"]
        with time_machine.travel(NOON + timedelta(hours=73), tick=False):
            send_now()
            assert states() == ["given_up"]
            (delivery,) = Delivery.objects.all()
            assert Event.objects.filter(kind="notice.give_up", data__delivery=str(delivery.uuid)).count() == 1
            with pytest.raises(NotAllowed):
                retry_delivery(delivery=delivery, author=author(people.reviewer))
            mail_host.start()
            retry_delivery(delivery=delivery, author=author(people.operator))
            with pytest.raises(InvalidTransition):
                retry_delivery(delivery=delivery, author=author(people.operator))
            assert sending.send_due() == 1
        assert mail_host.box.letters[0]["Message-ID"].startswith(f"<{delivery.uuid}@")

    def test_the_waits_grow_and_differ(self) -> None:
        failure = sending.SendFailure("busy")
        waits = [sending._wait_s(failure, attempt) for attempt in range(1, 30)]
        assert 5 <= waits[0] < 7 and 10 <= waits[1] < 13.1 and max(waits) <= 3600 * 1.3
        assert sending._wait_s(sending.SendFailure("later", wait_s=40), 1) >= 40

    def test_secrets_are_struck_from_what_leaves_and_from_errors(self, lab: Lab, mail_host: MailHost) -> None:
        make_channel(lab)
        happen(lab, "phase failed: password=hunter2hunter2 at https://me:s3cretpass@host/")
        mail_host.box.answers = {"lab@example.org": "550 token=abcdefghijkl is unknown"}
        send_now()
        mail_host.box.answers = {}
        assert "abcdefghijkl" not in Delivery.objects.get().error
        Delivery.objects.update(state="pending", ended_at=None)
        send_now()
        sent = mail_host.box.letters[0].as_string()
        assert "hunter2" not in sent and "s3cretpass" not in sent and "[redacted]" in sent

    @pytest.mark.parametrize("wait_s", [-1e300, float("nan"), float("inf"), -1, 0])
    def test_what_the_other_side_calls_a_time_is_none(self, wait_s: float) -> None:
        assert 5 <= sending._wait_s(sending.SendFailure("later", wait_s=wait_s), 1) <= 3600 * 1.3

    @pytest.mark.parametrize(
        "outcome",
        [
            sending.SendFailure("403 \ud800 \x00", everywhere=True, wait_s=-1e300),
            sending.SendFailure("refused \x00", transient=False),
            sending.Sent("\x00\ud800", note="no pictures \udfff\x00"),
        ],
    )
    def test_what_the_other_side_says_of_itself_ends_no_turn(
        self, outcome: sending.Outcome, lab: Lab, monkeypatch: Any
    ) -> None:
        """A server may answer what no database keeps: that is one notice's fate, not that of those behind it."""
        make_channel(lab, "ill", kind="matrix")
        make_channel(lab, "well")
        happen(lab)

        def send(kind: str) -> Any:
            def answer(message: Any, where: Any) -> sending.Sent:
                if kind == "matrix" and isinstance(outcome, sending.SendFailure):
                    raise outcome
                return outcome if kind == "matrix" and isinstance(outcome, sending.Sent) else sending.Sent("good")

            return answer

        monkeypatch.setattr(sending, "notifier", send)
        monkeypatch.setattr(sending, "place_of", lambda channel, recipient: Where(channel.address))
        send_now()
        ill, well = Delivery.objects.order_by("id")
        assert (well.state, well.remote_id) == ("sent", "good")
        assert ill.state != "sending" and ("\ufffd" in ill.error or "\u2400" in ill.error)

    def test_a_delivery_that_cannot_be_judged_stops_no_other(
        self, lab: Lab, mail_host: MailHost, monkeypatch: Any
    ) -> None:
        make_channel(lab)
        bad, _ = happen(lab, "bad"), happen(lab, "good")

        def judge(event: Event, reader: Any) -> str:
            if event.pk == bad.pk:
                raise RuntimeError("boom")
            return ""

        monkeypatch.setattr(sending, "needless", judge)
        assert send_now() == 1
        assert states() == ["pending", "sent"]

    def test_nothing_that_happened_turns_or_breaks_what_is_read(
        self, lab: Lab, mail_host: MailHost, monkeypatch: Any
    ) -> None:
        make_channel(lab)
        happen(lab, "run \u202eenod\u202c\u200b failed\r\nBcc: all@example.org\u2028Open: https://evil.example/")
        sight = Sight(lines=("first\r\n\r\nhttps://evil.example/\x1b[31m\u2066", "\u200b", "a\x00b"))
        monkeypatch.setattr(compose, "look_at", lambda event, pictures: sight)
        assert send_now() == 1
        (letter,) = mail_host.box.letters
        assert letter["Bcc"] is None and "\n" not in str(letter["Subject"])
        text = letter.get_body(("plain",)).get_content()
        lines = text.strip().splitlines()
        assert lines[0] == "run enod failed Bcc: all@example.org Open: https://evil.example/"
        assert lines[1:3] == ["first https://evil.example/\u241b[31m", "a\u2400b"]

    def test_a_message_that_cannot_be_composed_stops_no_other(
        self, lab: Lab, mail_host: MailHost, monkeypatch: Any
    ) -> None:
        make_channel(lab)
        bad, _ = happen(lab, "bad"), happen(lab, "good")
        real = sending.message_of

        def compose(deliveries: Any) -> Any:
            if deliveries[0].event_id == bad.pk:
                raise RuntimeError("boom")
            return real(deliveries)

        monkeypatch.setattr(sending, "message_of", compose)
        assert send_now() == 1
        assert states() == ["pending", "sent"]


@pytest.mark.django_db(transaction=True)
class TestPersonal:
    def test_at_once_to_the_persons_own_address(self, lab: Lab, reader: Any, mail_host: MailHost) -> None:
        save_wishes(user=reader, wishes=Wishes(kinds=["run.finish"]))
        happen(lab)
        happen(lab, kind="run.pause")
        assert sending.send_due() == 1
        assert mail_host.box.recipients == ["reviewer@example.org"]

    def test_who_left_the_lab_hears_nothing_more(self, lab: Lab, reader: Any, mail_host: MailHost) -> None:
        save_wishes(user=reader, wishes=Wishes(kinds=["run.finish"]))
        happen(lab)
        Membership.objects.filter(user=reader).delete()
        happen(lab)
        assert sending.send_due() == 0
        assert states() == ["dropped"]

    def test_a_digest_is_one_letter_and_stays_the_same_one(self, lab: Lab, reader: Any, mail_host: MailHost) -> None:
        wishes = Wishes(kinds=["run.finish"], digest=True, digest_at=time(8), time_zone="Europe/Zurich")
        with time_machine.travel(NOON, tick=False):
            save_wishes(user=reader, wishes=wishes)
            for number in range(3):
                happen(lab, f"run {number} finished")
            assert sending.send_due() == 0
        morning = datetime(2026, 12, 1, 7, 0, tzinfo=UTC)
        mail_host.box.at_data = "451 later"
        with time_machine.travel(morning, tick=False):
            assert sending.send_due() == 0
            batch = Delivery.objects.values_list("batch", flat=True).distinct().get()
            happen(lab, "run 3 finished")
        mail_host.box.at_data = ""
        with time_machine.travel(morning + timedelta(hours=2), tick=False):
            assert sending.send_due() == 3
        (letter,) = mail_host.box.letters
        assert letter["Message-ID"].startswith(f"<{batch}@") and "3 notices" in letter["Subject"]
        text = letter.get_body(["plain"])
        assert text and all(f"run {number} finished" in text.get_content() for number in range(3))
        assert states() == ["sent", "sent", "sent", "pending"]

    def test_quiet_hours_hold_what_happens_until_they_end(self, lab: Lab, reader: Any, mail_host: MailHost) -> None:
        quiet = Wishes(["run.finish"], quiet_from=time(22), quiet_until=time(7), time_zone="Asia/Tokyo")
        with time_machine.travel(NOON, tick=False):
            save_wishes(user=reader, wishes=quiet)
        with time_machine.travel(datetime(2026, 11, 30, 14, 0, tzinfo=UTC), tick=False):  # 23 h in Tokyo
            happen(lab, "one")
            happen(lab, "two")
            assert sending.send_due() == 0
        with time_machine.travel(datetime(2026, 11, 30, 22, 0, tzinfo=UTC), tick=False):
            assert sending.send_due() == 2
        assert len(mail_host.box.letters) == 1

    @pytest.mark.parametrize(
        ("moment", "due"),
        [
            ("2026-03-28T23:30", "2026-03-29T05:30"),  # the night in which Zurich's clocks go forward
            ("2026-10-24T22:30", "2026-10-25T06:30"),  # and back
            ("2026-06-01T12:00", "2026-06-01T12:00"),
            ("2026-06-01T05:29", "2026-06-01T05:30"),
        ],
    )
    def test_the_end_of_quiet_hours_by_the_clock_on_the_wall(self, moment: str, due: str) -> None:
        wish = PersonalNotices(quiet_from=time(22), quiet_until=time(7, 30), time_zone="Europe/Zurich")
        assert wish.sends_at(datetime.fromisoformat(f"{moment}+00:00")) == datetime.fromisoformat(f"{due}+00:00")

    def test_wishes_that_can_not_be_kept(self, people: People, reader: Any) -> None:
        with pytest.raises(BadInput, match="job.start"):
            save_wishes(user=reader, wishes=Wishes(kinds=["job.start"]))
        with pytest.raises(BadInput, match="beginning and an end"):
            save_wishes(user=reader, wishes=Wishes(quiet_from=time(22)))
        with pytest.raises(BadInput, match="no e-mail address"):
            save_wishes(user=people.viewer, wishes=Wishes(kinds=["run.finish"]))
        assert not PersonalNotices.objects.exists()


@pytest.mark.django_db
class TestChannels:
    def test_only_administrators_of_the_lab_make_them(self, lab: Lab, people: People) -> None:
        given: dict[str, Any] = {"kind": "email", "address": "a@example.org", "topics": ["escalations"]}
        made = save_channel(lab_id=lab.pk, author=author(people.administrator), name="alarms", **given)
        assert Event.objects.get(kind="channel.change").data["address"] == made.address
        for user in (people.viewer, people.operator, people.reviewer, people.outsider):
            with pytest.raises(NotAllowed):
                save_channel(lab_id=lab.pk, author=author(user), name="mine", **given)
        with pytest.raises(BadInput, match="alarms already"):
            save_channel(lab_id=lab.pk, author=author(people.administrator), name="alarms", **given)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"kind": "email", "address": ""}, "needs an address"),
            ({"kind": "email", "address": "a@example.org, b"}, "b is no e-mail address"),
            ({"kind": "matrix", "address": " "}, "needs a room"),
            ({"kind": "webhook", "address": "example.org"}, "https://"),
            ({"kind": "pigeon", "address": "loft"}, "pigeon"),
            ({"kind": "matrix", "address": "#r", "topics": ["gossip"]}, "no topic gossip"),
            ({"kind": "matrix", "address": "#r", "name": "Not A Word"}, "Lower-case"),
            ({"kind": "matrix", "address": "#r", "identity": "no--word"}, "Lower-case"),
        ],
    )
    def test_what_a_channel_can_not_be(self, given: dict[str, Any], words: str, lab: Lab, people: People) -> None:
        with pytest.raises(BadInput, match=words):
            save_channel(lab_id=lab.pk, author=author(people.administrator), **({"name": "room"} | given))

    def test_switched_off_it_owes_nothing(self, lab: Lab, people: People) -> None:
        channel = make_channel(lab)
        happen(lab)
        admin = author(people.administrator)
        save_channel(lab_id=lab.pk, author=admin, name=channel.name, channel=channel, enabled=False)
        assert states() == ["dropped"]
        with pytest.raises(BadInput, match="switched off"):
            try_channel(channel=channel, author=admin)

    def test_an_apprise_address_is_not_kept_in_the_database(self, lab: Lab, people: People) -> None:
        made = save_channel(
            lab_id=lab.pk, author=author(people.administrator), name="chat", kind="apprise", address="slack://a/b/c"
        )
        assert Channel.objects.get(pk=made.pk).address == ""


def test_a_change_forgets_nothing_that_was_sent_meanwhile(lab: Lab, people: People) -> None:
    channel = make_channel(lab)
    sent_at = timezone.now()
    Channel.objects.update(sent_at=sent_at, failures=3)
    save_channel(lab_id=lab.pk, author=author(people.administrator), name="room", channel=channel, enabled=False)
    channel.refresh_from_db()
    assert (channel.sent_at, channel.failures, channel.enabled) == (sent_at, 0, False)


@pytest.mark.parametrize("prefix", ["/", "/conductor/"])
def test_a_link_is_the_sites_address_and_the_page(prefix: str, settings: Any) -> None:
    settings.BASE_URL = f"https://lab.example.org{prefix.rstrip('/')}"
    before = get_script_prefix()
    set_script_prefix(prefix)
    try:
        assert link_to(reverse("notices:mine")) == f"https://lab.example.org{prefix}notices/"
    finally:
        set_script_prefix(before)
    settings.BASE_URL = ""
    assert link_to("/notices/") == ""
