"""Notices of gates: pictures, links, whom they still concern; reminders."""

import struct
import zlib
from datetime import UTC, datetime, time, timedelta
from io import BytesIO
from typing import Any

import pytest
import time_machine
from django.urls import reverse
from PIL import Image

from gates.models import Evidence, Gate
from gates.noticing import SIDE_PX, _remind, remind_waiting, thumbnails
from gates.services import delegate_gate
from gates.store import path_of, put
from gates.tests.doubles import answer, ask
from record.models import Delivery, Door, Event, Lab, PersonalNotices
from record.notices.sending import send_due
from record.notices.services import Wishes, save_wishes
from record.services import Author
from record.tests.factories import People
from record.tests.notices_scene import make_channel, send_now, states
from record.tests.servers.smtp import MailHost
from record.tests.stills import grey_png

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def readers(people: People) -> People:
    for user in (people.viewer, people.reviewer, people.administrator):
        user.email = f"{user.username}@example.org"
        user.save()
    return people


def show(gate: Gate, name: str, content: bytes, **fields: Any) -> Evidence:
    stored = put(content, name=name, kind="image")
    return Evidence.objects.create(
        gate=gate, name=name, kind="image", media_type=stored.media_type, sha256=stored.sha256,
        size_bytes=stored.size_bytes, **fields,
    )  # fmt: skip


def test_a_gate_is_told_with_its_link_and_small_pictures(lab: Lab, mail_host: MailHost, settings: Any) -> None:
    settings.BASE_URL = "https://lab.example.org/conductor"
    make_channel(lab)
    gate = ask(lab)
    show(gate, "00/TS_001.png", grey_png(2000, 1000), item="TS_001", title="xy")
    show(gate, "01/TS_001.png", grey_png(10, 20), item="TS_001", title="xz")
    show(gate, "02/TS_002.png", grey_png(10, 20), item="TS_002", title="xy")
    assert send_now() == 1
    (letter,) = mail_host.box.letters
    text = letter.get_body(["plain"])
    assert text and f"https://lab.example.org/conductor{reverse('gates:detail', args=[gate.pk])}" in text.get_content()
    pictures = [part for part in letter.walk() if part.get_content_type() == "image/png"]
    sizes = [Image.open(BytesIO(part.get_payload(decode=True))).size for part in pictures]  # type: ignore[arg-type]
    assert sizes == [(SIDE_PX, SIDE_PX // 2), (10, 20)]  # one an item


def test_without_the_sites_address_there_is_no_link(lab: Lab, mail_host: MailHost) -> None:
    make_channel(lab, with_pictures=False)
    show(ask(lab), "a.png", grey_png())
    send_now()
    (letter,) = mail_host.box.letters
    assert "http" not in letter.as_string() and "image/png" not in letter.as_string()


def test_a_picture_that_is_lost_is_left_out(lab: Lab) -> None:
    gate = ask(lab)
    lost = show(gate, "a.png", grey_png(9, 9), item="TS_001")
    show(gate, "b.png", grey_png(8, 8), item="TS_002")
    path_of(lost.sha256).unlink()
    assert [picture.caption for picture in thumbnails(gate)] == ["TS_002: b.png"]


def test_a_damaged_picture_keeps_no_notice_back(lab: Lab, mail_host: MailHost) -> None:
    """The store looks at a picture's head and tail; what lies between is the decoder's to stumble over."""
    make_channel(lab)
    gate = ask(lab)
    whole = grey_png(400, 400)
    too_short = zlib.compress(bytes(50))
    data = struct.pack(">I", len(too_short)) + b"IDAT" + too_short + struct.pack(">I", zlib.crc32(b"IDAT" + too_short))
    nonsense = struct.pack(">I", 5) + b"\x00\x01\x02\x03" + b"nonsense"
    show(gate, "00/TS_001.png", whole[:33] + data + nonsense + whole[-12:], item="TS_001")
    show(gate, "01/TS_002.png", grey_png(10, 20), item="TS_002")
    assert send_now() == 1
    (letter,) = mail_host.box.letters
    assert len([part for part in letter.walk() if part.get_content_type() == "image/png"]) == 1


def test_only_whom_the_gate_waits_for_is_asked(lab: Lab, readers: People, mail_host: MailHost) -> None:
    for user in (readers.viewer, readers.reviewer, readers.administrator):
        save_wishes(user=user, wishes=Wishes(kinds=["gate.open"]))
    ask(lab, policy={"who": ["reviewer"]})
    assert send_due() == 1
    assert mail_host.box.recipients == ["reviewer@example.org"]
    assert sorted(states()) == ["dropped", "dropped", "sent"]


def test_what_was_answered_meanwhile_is_not_told_any_more(lab: Lab, readers: People, mail_host: MailHost) -> None:
    save_wishes(user=readers.administrator, wishes=Wishes(kinds=["gate.open", "gate.decide"]))
    gate = ask(lab)
    answer(gate, readers.reviewer)
    assert send_due() == 1
    assert [str(letter["Subject"]).rpartition("] ")[2] for letter in mail_host.box.letters] == [
        Event.objects.get(kind="gate.decide").message
    ]


def test_whom_it_is_handed_to_hears_of_it(lab: Lab, readers: People, mail_host: MailHost) -> None:
    save_wishes(user=readers.administrator, wishes=Wishes(kinds=["gate.delegate"]))
    gate = ask(lab, policy={"who": ["reviewer"]})
    by = Author.person(readers.reviewer, Door.WEB)
    delegate_gate(gate_id=gate.pk, author=by, to_username="administrator", reason="she knows this sample")
    assert send_due() == 1
    assert mail_host.box.recipients == ["administrator@example.org"]


class TestReminders:
    @pytest.fixture
    def gate(self, lab: Lab, readers: People) -> Gate:
        with time_machine.travel(NOON, tick=False):
            save_wishes(
                user=readers.reviewer, wishes=Wishes(remind_after_h=4, quiet_from=time(22), quiet_until=time(7))
            )
            save_wishes(user=readers.viewer, wishes=Wishes(remind_after_h=4))
            return ask(lab)

    def remind_at(self, hours: float) -> int:
        with time_machine.travel(NOON + timedelta(hours=hours), tick=False):
            remind_waiting()
            return send_due()

    def test_after_as_many_hours_and_again(self, gate: Gate, mail_host: MailHost) -> None:
        assert [self.remind_at(hours) for hours in (3.9, 4, 4.1, 7.9, 8)] == [0, 1, 0, 0, 1]
        assert mail_host.box.recipients == ["reviewer@example.org"] * 2
        assert "waits for you" in mail_host.box.letters[0]["Subject"]

    def test_several_come_together(self, gate: Gate, lab: Lab, mail_host: MailHost) -> None:
        with time_machine.travel(NOON, tick=False):
            ask(lab, key="second")
        assert self.remind_at(4.5) == 2
        assert len(mail_host.box.letters) == 1

    def test_not_in_quiet_hours_but_after_them(self, gate: Gate, mail_host: MailHost) -> None:
        PersonalNotices.objects.update(remind_at=NOON + timedelta(hours=11))
        assert [self.remind_at(hours) for hours in (11, 18.9, 19)] == [0, 0, 1]

    def test_none_once_it_is_answered(self, gate: Gate, readers: People, mail_host: MailHost) -> None:
        with time_machine.travel(NOON + timedelta(hours=4), tick=False):
            remind_waiting()
            assert states() == ["pending"]
            answer(gate, readers.reviewer)
            assert send_due() == 0
        assert [self.remind_at(hours) for hours in (5, 8, 9)] == [0, 0, 0]

    def test_two_that_look_at_once_remind_once(self, gate: Gate) -> None:
        with time_machine.travel(NOON + timedelta(hours=4), tick=False):
            keys = list(PersonalNotices.objects.filter(user__username="reviewer").values_list("pk", flat=True))
            assert [_remind(key) for key in keys * 2] == [1, 0]
            assert Delivery.objects.count() == 1
