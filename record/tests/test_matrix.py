"""Matrix, on a real Synapse: once in the room whatever dies in between, and in words what is wrong."""

import json
import os
import signal
import subprocess
import sys
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.utils import timezone

from record.models import Channel, Delivery, Lab, SenderTurn
from record.notices.secrets import keep_secret, read_secret, variable
from record.notifiers import Item, Message, Picture, SendFailure, Where, matrix
from record.notifiers.web import Answer
from record.tests.harness import database_environment
from record.tests.notices_scene import happen, make_channel, send_now, states
from record.tests.servers.ports import free_port
from record.tests.servers.synapse import Homeserver
from record.tests.stills import grey_png


@pytest.fixture
def name() -> str:
    """Unlike all other rooms and users of the server."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def room(homeserver: Homeserver, name: str) -> str:
    return homeserver.room(name)


@pytest.fixture
def channel(
    transactional_db: None, lab: Lab, homeserver: Homeserver, room: str, name: str, settings: Any, tmp_path: Any
) -> Channel:
    settings.NOTICE_SECRETS = tmp_path / "secrets"
    keep_secret(variable(lab.slug, "matrix", "conductor"), homeserver.bot(name))
    return make_channel(lab, kind="matrix", address=name)


def message(text: str = "run one finished", **fields: Any) -> Message:
    item = Item(text, ("3 good, 1 bad (TS_003).",), "https://lab.example.org/gates/7/", timezone.now(), "conductor-log")
    return Message(uuid4(), text, (item,), **fields)


def test_a_notice_is_in_the_room_once_with_its_link(
    channel: Channel, homeserver: Homeserver, room: str, lab: Lab
) -> None:
    event = happen(lab, "run <b>one</b> finished & counted")
    assert send_now() == 1
    (found,) = homeserver.messages(room)
    assert found["content"]["body"] == "run <b>one</b> finished & counted"
    assert "run &lt;b&gt;one&lt;/b&gt; finished &amp; counted" in found["content"]["formatted_body"]
    delivery = Delivery.objects.get(event=event)
    assert (delivery.state, delivery.remote_id) == ("sent", found["event_id"])
    assert found["content"][matrix.MARK] == str(delivery.uuid)
    assert send_now() == 0


def test_sent_again_after_a_restart_it_is_there_once(homeserver: Homeserver, room: str, name: str) -> None:
    where = Where(f"#{name}:localhost", homeserver.bot(name))
    told = message()
    first = matrix.send(told, where)
    homeserver.kill()
    with pytest.raises(SendFailure) as failure:
        matrix.send(message("meanwhile"), where)
    assert failure.value.everywhere and failure.value.transient and not failure.value.unknown
    homeserver.start()
    assert matrix.send(told, where).remote_id == first.remote_id
    assert len(homeserver.messages(room)) == 1


def test_a_doubtful_one_is_looked_for_under_a_new_sign_in(homeserver: Homeserver, room: str, name: str) -> None:
    bot = homeserver.bot(name)
    told = message()
    first = matrix.send(told, Where(room, bot))
    anew = matrix.sign_in(homeserver=homeserver.url, user=name, password=f"pw-{name}", device="a test")
    assert json.loads(anew)["access_token"] != json.loads(bot)["access_token"]
    again = Message(told.uuid, told.subject, told.items, doubtful=True)
    assert matrix.send(again, Where(room, anew)).remote_id == first.remote_id
    assert len(homeserver.messages(room)) == 1


def test_it_is_found_behind_much_that_was_said_since(homeserver: Homeserver, room: str, name: str) -> None:
    """A page of long messages is read to its end: what a cut one does not show may be there all the same."""
    bot = homeserver.bot(name)
    told = message()
    first = matrix.send(told, Where(room, bot))
    for _ in range(12):
        matrix.send(message("long " * 3000), Where(room, bot))
    anew = matrix.sign_in(homeserver=homeserver.url, user=name, password=f"pw-{name}", device="a test")
    again = Message(told.uuid, told.subject, told.items, doubtful=True)
    assert matrix.send(again, Where(room, anew)).remote_id == first.remote_id


def test_what_was_not_read_whole_is_not_taken_for_missing(
    homeserver: Homeserver, room: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = homeserver.bot(name)
    told = message()
    matrix.send(told, Where(room, bot))
    monkeypatch.setattr(matrix, "PAGE_BYTES", 100)
    with pytest.raises(SendFailure, match="too much, or too slowly") as failure:
        matrix.send(Message(told.uuid, told.subject, told.items, doubtful=True), Where(room, bot))
    assert failure.value.transient and len(homeserver.messages(room)) == 1


SENDER = """
import django
django.setup()
from record.notices.sending import send_due
print(send_due())
"""


def senders(folder: Any) -> dict[str, Any]:
    """How a sender of its own process is started on this test's database and secrets."""
    environment = os.environ | database_environment()
    environment |= {
        "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
        "CONDUCTOR_DATA": str(folder),
        "CONDUCTOR_NOTICE_LEASE_S": "60",
    }
    return {"args": [sys.executable, "-c", SENDER], "cwd": django_settings.BASE_DIR, "env": environment}


def pass_lease() -> None:
    """The time of whoever sends is over."""
    Delivery.objects.open().update(due_at=timezone.now())
    SenderTurn.objects.update(until=timezone.now())


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_sender_lost_between_sending_and_writing_it_down(
    action: str, channel: Channel, homeserver: Homeserver, room: str, lab: Lab, settings: Any
) -> None:
    happen(lab)
    how = senders(settings.NOTICE_SECRETS.parent)
    fault = {"CONDUCTOR_FAULT": f"notice_sent:{action}"}
    with subprocess.Popen(**how | {"env": how["env"] | fault}, stdout=subprocess.PIPE) as lost:
        os.waitid(os.P_PID, lost.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        assert len(homeserver.messages(room)) == 1
        assert states() == ["sending"]
        pass_lease()
        again = subprocess.run(**how, timeout=120, capture_output=True, text=True)
        assert again.stdout.strip() == "1", again.stderr
        if action == "stop":
            lost.send_signal(signal.SIGCONT)
            assert lost.communicate(timeout=120)[0].strip() == b"0"
    (found,) = homeserver.messages(room)
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts, delivery.doubtful) == ("sent", 2, True)
    assert delivery.remote_id == found["event_id"]


def test_a_server_that_is_down_delays_and_loses_nothing(
    channel: Channel, homeserver: Homeserver, room: str, lab: Lab
) -> None:
    homeserver.stop()
    events = [happen(lab, f"run {number} finished") for number in range(3)]
    assert send_now() == 0
    channel.refresh_from_db()
    assert channel.failures == 1 and channel.closed_until and "can't be reached" in channel.problem
    assert states() == ["pending"] * 3
    homeserver.start()
    assert send_now() == 3
    assert homeserver.texts(room) == [event.message for event in events]
    channel.refresh_from_db()
    assert (channel.failures, channel.problem, channel.closed_until) == (0, "", None)


def test_a_limit_of_the_server_is_kept(
    homeserver: Homeserver, channel: Channel, room: str, lab: Lab, name: str
) -> None:
    keep_secret(variable(lab.slug, "matrix", "conductor"), homeserver.bot(f"{name}x", limited=True))
    for number in range(20):
        happen(lab, f"run {number} finished")
    send_now()
    channel.refresh_from_db()
    assert "less often" in channel.problem and channel.closed_until and channel.closed_until > timezone.now()
    some = len(homeserver.messages(room))
    assert 5 <= some < 20
    path = f"/_synapse/admin/v1/users/@{name}x:localhost/override_ratelimit"
    homeserver.ask("POST", path, {"messages_per_second": 0, "burst_count": 0}, token=homeserver.admin)
    assert send_now() == 20 - some
    assert homeserver.texts(room) == [f"run {number} finished" for number in range(20)]


def test_pictures_follow_where_they_are_allowed(homeserver: Homeserver, room: str, name: str) -> None:
    where = Where(room, homeserver.bot(name))
    small = Picture("a.png", "TS_001", "image/png", grey_png(), 1, 1)
    told = message(pictures=(small,))
    assert matrix.send(told, where).note == ""
    assert matrix.send(told, where).note == ""  # again: nothing is doubled
    kinds = [event["content"]["msgtype"] for event in homeserver.messages(room)]
    assert kinds == ["m.notice", "m.image"]
    large = Picture("b.png", "TS_002", "image/png", grey_png() + b"\0" * 300_000, 1, 1)
    assert "takes no pictures" in matrix.send(message(pictures=(large,)), where).note
    assert len(homeserver.messages(room)) == 3


ENCRYPTED = {"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": "private_chat"}, "invite it there"),
        ({"power_level_content_override": {"events_default": 50}}, "may not write into"),
        (
            {"initial_state": [{"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}]},
            "encrypted",
        ),
    ],
)
def test_a_room_that_lets_nobody_write_is_told_in_words(
    homeserver: Homeserver, name: str, options: dict[str, Any], words: str
) -> None:
    homeserver.room(name, **options)
    with pytest.raises(SendFailure, match=words) as failure:
        matrix.send(message(), Where(name, homeserver.bot(name)))
    assert failure.value.transient and failure.value.everywhere


def test_what_else_can_be_wrong(homeserver: Homeserver, room: str, name: str) -> None:
    bot = json.loads(homeserver.bot(name))
    for target, changes, words in [
        ("nowhere", {}, "There is no room #nowhere:localhost"),
        (room, {"access_token": "syt_wrong"}, "sign in again"),
        ("x", {"homeserver": f"http://127.0.0.1:{free_port()}"}, "can't be reached"),
        ("x", {"homeserver": "lab.example.org"}, "no address of a homeserver"),
    ]:
        with pytest.raises(SendFailure, match=words):
            matrix.send(message(), Where(target, json.dumps(bot | changes)))
    with pytest.raises(SendFailure, match="not one"):
        matrix.send(message(), Where("x", "a password"))


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://matrix.example.org", "to the network"),
        ("http://93.184.215.14:8008", "to the network"),
        ("http://10.0.0.5:8008", "to the network"),
        ("http://localhost.example.org", "to the network"),
        ("HTTP://matrix.example.org", "to the network"),
        ("ftp://matrix.example.org", "write https://"),
        ("https://", "write https://"),
        ("https://[::1", "write https://"),
        ("https://matrix.example.org:99999", "write https://"),
        ("https://u:p@matrix.example.org", "no password"),
    ],
)
def test_no_sign_in_goes_out_in_the_clear(address: str, words: str, monkeypatch: Any) -> None:
    asked: list[str] = []
    monkeypatch.setattr(matrix, "ask", lambda *_, **__: asked.append("asked"))
    kept = {"homeserver": address, "user_id": "@bot:example.org", "access_token": "syt_none"}
    with pytest.raises(SendFailure, match=words):
        matrix.send(message(), Where("!room:example.org", json.dumps(kept)))
    with pytest.raises(SendFailure, match=words):
        matrix.sign_in(homeserver=address, user="@bot:example.org", password="a password", device="test")
    assert asked == []


@pytest.mark.parametrize(
    "address", ["https://example.org/", "http://127.0.0.1:8008", "http://[::1]", "http://localhost"]
)
def test_addresses_of_homeservers(address: str) -> None:
    kept = {"homeserver": address, "user_id": "@bot:example.org", "access_token": "syt_none"}
    assert matrix.Bot.read(json.dumps(kept), "").homeserver == address.rstrip("/")


def test_what_a_homeserver_quotes_of_the_sign_in_is_struck_before_it_is_cut() -> None:
    token = "syx-" + "0123456789" * 3
    answer = Answer(403, json.dumps({"error": "." * (300 - len("403 ") - 9) + token}), {})
    assert token[:4] not in matrix._said(answer, token)


def test_from_a_password_to_a_message(
    homeserver: Homeserver, db: None, lab: Lab, room: str, name: str, settings: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    settings.NOTICE_SECRETS = tmp_path / "secrets"
    homeserver.bot(name)
    make_channel(lab, "room", "matrix", address=f"#{name}")
    out = StringIO()
    with pytest.raises(CommandError, match="does not work yet"):
        call_command("notify_test", "room", stdout=out, no_color=True)
    assert f"manage.py matrix_sign_in {lab.slug} conductor" in out.getvalue()
    argv = ["matrix_sign_in", lab.slug, "conductor", "--homeserver", homeserver.url, "--user", f"@{name}:localhost"]
    monkeypatch.setattr(sys, "stdin", StringIO("wrong\n"))
    with pytest.raises(CommandError, match="does not let .* in: 403"):
        call_command(*argv)
    monkeypatch.setattr(sys, "stdin", StringIO(f"pw-{name}\n"))
    call_command(*argv, stdout=out)
    kept = tmp_path / "secrets" / variable(lab.slug, "matrix", "conductor")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert f"pw-{name}" not in read_secret(kept.name)
    with pytest.raises(CommandError, match="--again"):
        call_command(*argv)
    call_command("notify_test", f"{lab.slug}/room", stdout=out, no_color=True)
    assert "a test was sent" in out.getvalue()
    assert "This is a test" in homeserver.texts(room)[0]
