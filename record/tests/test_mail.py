"""E-mail, on a real SMTP server that goes down, refuses, or falls silent."""

from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from record.models import Channel, Delivery, Lab
from record.notifiers import Item, Message, Picture, SendFailure, Where, mail
from record.notifiers.mail import MailServer
from record.tests.notices_scene import happen, make_channel, send_now, states
from record.tests.servers.smtp import MailHost, SilentHost
from record.tests.stills import grey_png

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_letter_has_text_html_inline_pictures_and_a_thread(mail_host: MailHost) -> None:
    run, picture = uuid4(), Picture("TS_001.png", "TS_001: xy", "image/png", grey_png(), 8, 8)
    item = Item("Picks <QC>: waits", ("3 good.",), "https://lab.example.org/gates/7/", timezone.now(), "conductor-log")
    told = Message(uuid4(), "[Lab] Picks\nBcc: all@example.org", (item,), (picture,), thread=run)
    server = MailServer("127.0.0.1", mail_host.port, sender="Conductor <conductor@lab.example.org>")
    mail.send(told, Where("reader@example.org", options={"server": server}))
    (letter,) = mail_host.box.letters
    assert mail_host.box.recipients == ["reader@example.org"]
    assert letter["Subject"] == "[Lab] Picks Bcc: all@example.org" and letter["Bcc"] is None
    assert letter["Message-ID"] == f"<{told.uuid}@lab.example.org>"
    assert letter["References"] == letter["In-Reply-To"] == f"<run-{run}@lab.example.org>"
    assert letter["Auto-Submitted"] == "auto-generated"
    text, html = letter.get_body(["plain"]), letter.get_body(["html"])
    assert text and html
    assert "https://lab.example.org/gates/7/" in text.get_content()
    page = html.get_content()
    assert "Picks &lt;QC&gt;: waits" in page and "<script" not in page and "http://" not in page
    (inline,) = [part for part in letter.walk() if part.get_content_type() == "image/png"]
    assert inline.get_payload(decode=True) == picture.data and inline.get_content_disposition() == "inline"
    assert f'src="cid:{inline["Content-ID"].strip("<>")}"' in page


def test_each_address_is_told_by_itself_and_one_refused_harms_no_other(mail_host: MailHost, lab: Lab) -> None:
    make_channel(lab, address="a@example.org, gone@example.org, busy@example.org")
    mail_host.box.answers = {"gone@example.org": "550 no such user", "busy@example.org": "450 later"}
    happen(lab)
    send_now()
    assert states() == ["sent", "given_up", "pending"]
    assert "550 no such user" in Delivery.objects.get(recipient="gone@example.org").error
    mail_host.box.answers = {}
    send_now()
    assert states() == ["sent", "given_up", "sent"]
    assert mail_host.box.recipients == ["a@example.org", "busy@example.org"]


def test_a_server_that_is_down_delays_and_loses_nothing(mail_host: MailHost, lab: Lab) -> None:
    channel = make_channel(lab)
    mail_host.stop()
    for number in range(3):
        happen(lab, f"run {number} finished")
    assert send_now() == 0
    channel.refresh_from_db()
    assert channel.failures == 1 and "can't be reached" in channel.problem
    assert states() == ["pending"] * 3
    assert [each.attempts for each in Delivery.objects.order_by("id")] == [1, 0, 0]  # the others did not even try
    mail_host.start()
    assert send_now() == 3
    assert [str(letter["Subject"]) for letter in mail_host.box.letters] == [
        f"[{lab.name}] run {number} finished" for number in range(3)
    ]


def test_a_silent_server_delays_no_other_channel(
    silent_host: SilentHost, hook_host: Any, lab: Lab, settings: Any, monkeypatch: Any
) -> None:
    from record.notices.secrets import new_webhook_key

    monkeypatch.setattr(mail, "TIMEOUT_S", 30.0)
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.NOTICE_LEASE_S = "127.0.0.1", silent_host.port, 12
    letters = make_channel(lab, "letters")
    hook = make_channel(lab, "hook", "webhook", address=f"http://127.0.0.1:{hook_host.port}/")
    monkeypatch.setenv(f"CONDUCTOR_NOTICE__{lab.slug.upper()}__WEBHOOK_HOOK", new_webhook_key())
    for _ in range(5):
        happen(lab)
    assert send_now() == 5
    assert set(hook.deliveries.values_list("state", flat=True)) == {"sent"}
    letters.refresh_from_db()
    assert "No answer within 6 s" in letters.problem
    first = letters.deliveries.order_by("id").first()
    assert first.state == "pending" and first.doubtful
    sent_at = hook.deliveries.order_by("id").last().ended_at
    assert first.due_at > sent_at  # the silent one was still waited for


def test_a_server_that_breaks_off_leaves_a_doubt(mail_host: MailHost, lab: Lab) -> None:
    make_channel(lab)
    happen(lab)
    mail_host.box.at_data = "451 the disk is full"
    send_now()
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.doubtful) == ("pending", False) and "451 the disk is full" in delivery.error
    mail_host.box.at_data = "554 looks like spam"
    send_now()
    delivery.refresh_from_db()
    assert delivery.state == "given_up" and "554 looks like spam" in delivery.error


def test_what_is_wrong_with_a_mail_server_is_told_in_words(lab: Lab, settings: Any) -> None:
    host = MailHost(account=("conductor", "correct horse"))
    host.start()
    try:
        server = MailServer("127.0.0.1", host.port, "conductor", "wrong horse")
        told = Message(uuid4(), "x", (Item("x", (), "", timezone.now(), ""),))
        with pytest.raises(SendFailure, match="refuses the user 'conductor' or the password") as failure:
            mail.send(told, Where("a@example.org", options={"server": server}))
        assert failure.value.transient and failure.value.everywhere
        good = MailServer("127.0.0.1", host.port, "conductor", "correct horse")
        mail.send(told, Where("a@example.org", options={"server": good}))
        assert len(host.box.letters) == 1
        with pytest.raises(SendFailure, match="can't do what is asked"):
            starttls = MailServer("127.0.0.1", host.port, security="starttls")
            mail.send(told, Where("a@example.org", options={"server": starttls}))
    finally:
        host.stop()
    with pytest.raises(SendFailure, match="no such host"):
        mail.send(told, Where("a@example.org", options={"server": MailServer("no-such-host.invalid")}))
    out = StringIO()
    settings.EMAIL_HOST = ""
    make_channel(lab, "letters")
    with pytest.raises(CommandError, match="does not work yet"):
        call_command("notify_test", "letters", stdout=out, no_color=True)
    assert "CONDUCTOR_EMAIL_HOST" in out.getvalue()


def test_notify_test_names_the_channels_there_are(lab: Lab, mail_host: MailHost) -> None:
    make_channel(lab, "letters")
    with pytest.raises(CommandError, match=f"no channel rooms: {lab.slug}/letters"):
        call_command("notify_test", "rooms")
    out = StringIO()
    call_command("notify_test", f"{lab.slug}/letters", stdout=out, no_color=True)
    assert "lab@example.org: a test was sent." in out.getvalue()
    assert Channel.objects.get().deliveries.count() == 0
