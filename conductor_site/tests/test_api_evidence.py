"""Evidence through the API: files added to a gate, and files read whole or in part."""

import base64
import hashlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from threading import Barrier, Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as site
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from conductor_site.tests.world import PIXEL, World, make_evidence, make_world
from gates import store
from gates.digest import evidence_digest, items_of
from gates.models import Evidence, Gate
from record.models import Decision, Event, Lab
from record.tests.factories import People


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.operator)
    return make_world(lab, people.operator, tmp_path)


def add(client: Client, gate: Gate, data: bytes = PIXEL, headers: dict[str, str] | None = None, **changes: str) -> Any:
    """Post a file to the gate, as curl would with --data-binary."""
    stated = {} if headers else {"sha256": hashlib.sha256(data).hexdigest()}
    query = urlencode({"name": "mask.png", "kind": "image"} | stated | changes)
    url = f"/api/v1/gates/{gate.pk}/evidence/?{query}"
    return client.generic("POST", url, data, content_type="application/octet-stream", headers=headers)


def left_behind() -> list[Path]:
    return list(Path(site.EVIDENCE_ROOT).glob(".incoming.*"))


def decide(client: Client, gate: Gate, digest: str, **more: Any) -> Any:
    body = {"verdict": "approve", "answers": {"shift": 4.5}, "digest": digest} | more
    return client.post(f"/api/v1/gates/{gate.pk}/decide/", body, content_type="application/json")


def test_a_file_is_added_and_shown(world: World, people: People, client: Client) -> None:
    answer = add(client, world.gate, title="Mask", caption="drawn by hand", item="")
    assert answer.status_code == 201, answer.content
    piece = Evidence.objects.get(uuid=answer.json()["uuid"])
    assert (piece.name, piece.media_type, piece.added_by) == ("added/mask.png", "image/png", people.operator)
    assert client.get(f"/api/v1/evidence/{piece.uuid}/file/").content == PIXEL
    assert answer.json()["added_by_name"] in Event.objects.get(kind="gate.add_evidence").message
    assert not left_behind()
    assert answer.json()["added_by_name"] in client.get(f"/gates/{world.gate.pk}/").content.decode()


def test_an_answer_to_what_was_shown_before_is_refused(world: World, people: People, client: Client) -> None:
    client.force_login(people.reviewer)
    add(client, world.gate, name="one.png")
    seen = client.get(f"/api/v1/gates/{world.gate.pk}/").json()["digest"]
    add(client, world.gate, b"x\ty\n", name="two.tsv", kind="table")
    stale = decide(client, world.gate, seen)
    assert (stale.status_code, stale.json()["code"]) == (409, "stale")
    assert stale.json()["extra"]["changed"] == ["new: added/two.tsv"]
    now = client.get(f"/api/v1/gates/{world.gate.pk}/").json()["digest"]
    decided = decide(client, world.gate, now)
    assert decided.status_code == 200
    shown = Decision.objects.get(uuid=decided.json()["decision"]).evidence
    assert set(shown["items"]) == {world.evidence.name, "added/one.png", "added/two.tsv"}


def test_ballots_on_what_was_shown_before_count_no_more(world: World, people: People, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(policy={"quorum": 2})
    Gate.objects.filter(pk=world.advised_gate.pk).delete()
    client.force_login(people.reviewer)
    decide(client, world.gate, "d" * 64)
    assert client.get("/api/v1/gates/waiting/").json() == []
    add(client, world.gate)
    assert [gate["id"] for gate in client.get("/api/v1/gates/waiting/").json()] == [world.gate.pk]
    digest = client.get(f"/api/v1/gates/{world.gate.pk}/").json()["digest"]
    assert decide(client, world.gate, digest).json()["decision"] is None
    client.force_login(people.administrator)
    assert decide(client, world.gate, digest).json()["decision"]


@pytest.mark.django_db(transaction=True)
def test_an_answer_and_an_addition_at_one_moment(lab: Lab, people: People, tmp_path: Path) -> None:
    """Whichever is first: a decision rests on just what its gate showed, and nothing is added after it."""
    world = make_world(lab, people.operator, tmp_path)
    digest = evidence_digest(items_of(world.gate), world.gate.suggestion)
    Gate.objects.filter(pk=world.gate.pk).update(digest=digest)
    start, answers = Barrier(4), {}

    def act(name: str, user: User, do: Callable[[Client], Any]) -> None:
        client = Client()
        client.force_login(user)
        start.wait()
        answers[name] = do(client)
        connection.close()

    acts: dict[str, tuple[User, Callable[[Client], Any]]] = {
        "decide": (people.reviewer, lambda client: decide(client, world.gate, digest)),
        "a": (people.operator, lambda client: add(client, world.gate, b"a", name="a.log", kind="log")),
        "b": (people.operator, lambda client: add(client, world.gate, b"b", name="b.log", kind="log")),
        "again": (people.administrator, lambda client: add(client, world.gate, b"b", name="b.log", kind="log")),
    }
    threads = [Thread(target=act, args=(name, *what)) for name, what in acts.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    gate = Gate.objects.get(pk=world.gate.pk)
    assert gate.digest == evidence_digest(items_of(gate), gate.suggestion)
    told = {name: answer.status_code for name, answer in answers.items()}
    if told.pop("decide") == 200:
        assert gate.decision is not None
        assert gate.decision.evidence["items"] == items_of(gate)
        assert set(told.values()) == {409}
    else:
        assert gate.state == "open"
        assert {status for name, status in told.items() if name == "a"} <= {201, 409}
        assert sorted([told["b"], told["again"]]) in ([200, 201], [409, 409])
        assert len(items_of(gate)) > 1


def test_what_is_added_while_preparing_is_there_when_it_opens(world: World, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(state="preparing", digest="")
    assert add(client, world.gate, item="TS_009").status_code == 201
    assert Gate.objects.get(pk=world.gate.pk).digest == ""


def test_the_same_again_changes_nothing_even_when_closed(world: World, client: Client) -> None:
    first = add(client, world.gate)
    digest = Gate.objects.get(pk=world.gate.pk).digest
    Gate.objects.filter(pk=world.gate.pk).update(state="withdrawn")
    again = add(client, world.gate)
    assert (again.status_code, again.json()) == (200, first.json())
    assert Gate.objects.get(pk=world.gate.pk).digest == digest
    assert Event.objects.filter(kind="gate.add_evidence").count() == 1
    later = add(client, world.gate, name="later.png")
    assert (later.status_code, later.json()["code"]) == (409, "not_open")


@pytest.mark.parametrize("headers", [
    {"Content-Digest": f"sha-256=:{base64.b64encode(hashlib.sha256(PIXEL).digest()).decode()}:"},
    {"Content-Digest": f"sha-512=:abcd:, SHA-256=:{base64.b64encode(hashlib.sha256(PIXEL).digest()).decode()}:"},
    {"Digest": f"SHA-256={base64.b64encode(hashlib.sha256(PIXEL).digest()).decode()}"},
])  # fmt: skip
def test_the_digest_may_come_in_a_header(headers: dict[str, str], world: World, client: Client) -> None:
    assert add(client, world.gate, headers=headers).status_code == 201
    spoilt = add(client, world.gate, PIXEL + b"x", headers=headers, name="b.png")
    assert (spoilt.status_code, spoilt.json()["code"]) == (400, "digest_mismatch")


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"sha256": "0" * 64}, 400, "digest_mismatch"),
    ({"sha256": ""}, 400, "digest_missing"),
    ({"sha256": "zz"}, 400, "digest_unreadable"),
    ({"headers": {"Content-Digest": "sha-256=:AAAA:"}}, 400, "digest_unreadable"),
    ({"headers": {"Digest": "md5=AAAA"}}, 400, "digest_missing"),
    ({"name": "../../etc/passwd"}, 400, "bad_input"),
    ({"name": ".hidden"}, 400, "bad_input"),
    ({"name": ""}, 400, "bad_input"),
    ({"kind": "movie"}, 400, "bad_input"),
    ({"kind": "stack"}, 400, "bad_input"),
    ({"kind": "table"}, 400, "bad_input"),
    ({"caption": "a\u001b[31m"}, 400, "bad_input"),
    ({"item": "TS_404"}, 400, "bad_input"),
    ({"colour": "red"}, 400, "bad_input"),
    ({"data": b""}, 400, "bad_input"),
    ({"data": b"<svg onload=alert(1)>", "name": "a.txt", "kind": "log"}, 400, "bad_input"),
    ({"data": PIXEL[:40]}, 400, "bad_input"),
]


@pytest.mark.parametrize(("changes", "status", "code"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_not_added(changes: dict[str, Any], status: int, code: str, world: World, client: Client) -> None:
    answer = add(client, world.gate, **changes)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
    assert not Evidence.objects.exclude(added_at=None).exists()
    assert Gate.objects.get(pk=world.gate.pk).digest == "d" * 64
    assert not left_behind()


def test_a_name_stands_for_one_file(world: World, client: Client) -> None:
    add(client, world.gate, b"one", name="a.log", kind="log")
    other = add(client, world.gate, b"two", name="a.log", kind="log")
    assert (other.status_code, other.json()["code"]) == (409, "name_taken")


def test_files_have_a_largest_size(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gates.api.MAX_PIECE_BYTES", 10)
    announced = add(client, world.gate)
    assert (announced.status_code, announced.json()["code"]) == (413, "too_large")
    monkeypatch.setattr("gates.api.MAX_PIECE_BYTES", 10**6)
    monkeypatch.setattr(store, "MAX_PIECE_BYTES", 10)
    assert add(client, world.gate).status_code == 413
    assert not left_behind()


def test_a_gate_gets_full(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as small:
        small.setattr(store, "MAX_GATE_BYTES", world.evidence.size_bytes)
        assert add(client, world.gate).json()["code"] == "gate_full"
    with monkeypatch.context() as small:
        small.setattr(site, "EVIDENCE_QUOTA_GIB", world.evidence.size_bytes / 2**30)
        assert add(client, world.gate).json()["code"] == "over_quota"
    monkeypatch.setattr("gates.services.adding.MAX_ADDED", 1)
    assert add(client, world.gate).status_code == 201
    assert add(client, world.gate, name="b.png").json()["code"] == "gate_full"


def test_what_a_gate_refuses_takes_no_room(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever may add files could fill the disk, whatever the lab's quota is."""
    data = b"x\ty\n1\t2\n"
    with monkeypatch.context() as small:
        small.setattr(site, "EVIDENCE_QUOTA_GIB", world.evidence.size_bytes / 2**30)
        assert add(client, world.gate, data, name="a.tsv", kind="table").json()["code"] == "over_quota"
    Gate.objects.filter(pk=world.gate.pk).update(state="withdrawn")
    assert add(client, world.gate, data, name="a.tsv", kind="table").json()["code"] == "not_open"
    assert not store.path_of(hashlib.sha256(data).hexdigest()).exists()
    assert not left_behind()


def test_only_where_the_protocol_takes_it(world: World, people: People, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(options={"fields": []})
    answer = add(client, world.gate)
    assert (answer.status_code, answer.json()["code"]) == (403, "no_additions")
    assert client.get(f"/api/v1/gates/{world.gate.pk}/").json()["takes_additions"] is False


def test_a_viewer_adds_nothing(world: World, people: People, client: Client) -> None:
    client.force_login(people.viewer)
    assert add(client, world.gate).status_code == 403
    assert not left_behind()


def test_another_kind_of_body_is_refused(world: World, client: Client) -> None:
    sha256 = hashlib.sha256(b"{}").hexdigest()
    url = f"/api/v1/gates/{world.gate.pk}/evidence/?name=a.json&kind=table&sha256={sha256}"
    assert client.post(url, {}, content_type="application/json").status_code == 415


@pytest.mark.parametrize("gate", ["gate", "nobodys"])
def test_a_refused_file_is_read_to_its_end(gate: str, world: World, people: People, client: Client) -> None:
    """Else the socket would be reset, and the sender would never see why."""
    client.force_login(people.viewer)
    body = BytesIO(b"x" * 300_000)
    sha256 = hashlib.sha256(body.getvalue()).hexdigest()
    pk = world.gate.pk if gate == "gate" else 0
    url = f"/api/v1/gates/{pk}/evidence/?name=a.log&kind=log&sha256={sha256}"
    sent: dict[str, Any] = {"wsgi.input": body, "CONTENT_LENGTH": 300_000}
    answer = client.post(url, b"-", content_type="application/octet-stream", **sent)
    assert answer.status_code == (403 if gate == "gate" else 404)
    assert body.tell() == 300_000


@pytest.mark.parametrize(("who", "read_bytes"), [("viewer", 9 * 1024 * 1024), ("nobody", 8 * 1024 * 1024)])
def test_of_nobodys_file_no_more_is_read_than_of_any_other_body(
    who: str, read_bytes: int, world: World, people: People, client: Client
) -> None:
    client.logout()
    if who == "viewer":
        client.force_login(people.viewer)
    body = BytesIO(bytes(9 * 1024 * 1024))
    url = f"/api/v1/gates/{world.gate.pk}/evidence/?name=a.log&kind=log"
    sent: dict[str, Any] = {"wsgi.input": body, "CONTENT_LENGTH": len(body.getvalue())}
    answer = client.post(url, b"-", content_type="application/octet-stream", **sent)
    assert answer.status_code == (400 if who == "viewer" else 401)
    assert body.tell() == read_bytes


WHOLE = bytes(range(48, 58))
RANGES: list[tuple[str, int, bytes, str]] = [
    ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
    ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
    ("bytes=-2", 206, b"89", "bytes 8-9/10"),
    ("bytes=-99", 206, WHOLE, "bytes 0-9/10"),
    ("bytes=9-99", 206, b"9", "bytes 9-9/10"),
    ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
    ("bytes=3-1", 200, WHOLE, ""),
    ("bytes=-", 200, WHOLE, ""),
    ("bytes=0-1,4-5", 200, WHOLE, ""),
    ("lines=0-1", 200, WHOLE, ""),
    ("bytes=a-b", 200, WHOLE, ""),
    ("bytes=10-", 416, b"", "bytes */10"),
    ("bytes=99999999999999999999-", 416, b"", "bytes */10"),
    ("bytes=-0", 416, b"", "bytes */10"),
]


@pytest.fixture
def piece(world: World) -> Evidence:
    return make_evidence(world.gate, name="digits.log", content=WHOLE, kind="log")


@pytest.mark.parametrize(("asked", "status", "content", "part"), RANGES)
def test_a_part_of_a_file(asked: str, status: int, content: bytes, part: str, piece: Evidence, client: Client) -> None:
    answer = client.get(f"/api/v1/evidence/{piece.uuid}/file/", headers={"Range": asked})
    assert (answer.status_code, answer.headers.get("Content-Range", "")) == (status, part)
    if status == 416:
        assert (answer.json()["code"], answer["Content-Type"]) == ("out_of_range", "application/problem+json")
    else:
        assert answer.content == content
        assert (answer.headers["Accept-Ranges"], answer.headers["ETag"]) == ("bytes", f'"{piece.sha256}"')


def test_a_part_only_of_the_file_that_was_begun(piece: Evidence, client: Client) -> None:
    url, part = f"/api/v1/evidence/{piece.uuid}/file/", {"Range": "bytes=2-3"}
    assert client.get(url, headers=part | {"If-Range": f'"{piece.sha256}"'}).content == b"23"
    assert client.get(url, headers=part | {"If-Range": '"another"'}).content == WHOLE
    assert client.get(url, headers=part | {"If-Range": f'W/"{piece.sha256}"'}).content == WHOLE
    assert client.get(url, headers=part | {"If-None-Match": f'"{piece.sha256}"'}).status_code == 304
    assert client.head(url).headers["Content-Length"] == "10"
