"""The pages of gates: what they show, how they are answered, and that nothing typed is lost."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from gates.models import Evidence, Gate
from gates.services import answer_gate, apply_gate, reopen_gate
from gates.store import put
from gates.tests.doubles import answer, ask
from record.models import Decision, Door, Lab
from record.services import Author
from record.tests.factories import People

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00:~\x9bU"
    b"\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82"
)
HOSTILE = "<script>alert(1)</script>"


def add_picture(gate: Gate, name: str, **fields: Any) -> Evidence:
    kept = put(PNG, name=f"{name}.png", kind="image")
    fields = {"kind": "image", "title": name, "media_type": kept.media_type} | fields
    return Evidence.objects.create(gate=gate, name=name, sha256=kept.sha256, size_bytes=kept.size_bytes, **fields)


def page(client: Client, gate: Gate, user: User) -> str:
    client.force_login(user)
    response = client.get(reverse("gates:detail", args=[gate.pk]))
    assert response.status_code == 200
    return response.content.decode()


def post(client: Client, gate: Gate, user: User, name: str = "decide", **data: Any) -> Any:
    client.force_login(user)
    if name == "decide":
        data = {"seen_digest": gate.digest, "verdict": "approve", "threshold": "2.5", "reason": ""} | data
    return client.post(reverse(f"gates:{name}", args=[gate.pk]), data)


def test_an_open_gate_shows_its_form_with_the_suggestion(client: Client, lab: Lab, people: People) -> None:
    text = page(client, ask(lab), people.reviewer)
    assert 'name="threshold"' in text and 'value="2.5"' in text and "Å" in text
    assert text.index("Work goes on with these answers") < text.index('value="approve"')


def test_a_plain_post_decides(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    response = post(client, gate, people.reviewer)
    assert response.status_code == 302
    decision = Decision.objects.get()
    assert (decision.verdict, decision.actor, decision.door) == ("approve", people.reviewer, Door.WEB)
    text = page(client, gate, people.viewer)
    assert "approved" in text and f"/decisions/{decision.uuid}/" in text
    assert 'name="verdict"' not in text


def test_who_may_not_answer_sees_why_and_no_button(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    text = page(client, gate, people.viewer)
    assert "you need the role reviewer" in text
    assert 'name="verdict"' not in text
    assert post(client, gate, people.viewer).status_code == 403
    assert not Decision.objects.exists()


def test_an_outsider_finds_nothing(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    piece = add_picture(gate, "a")
    client.force_login(people.outsider)
    for url in [
        reverse("gates:detail", args=[gate.pk]),
        reverse("gates:pulse", args=[gate.pk]),
        reverse("gates:evidence", args=[gate.pk, piece.uuid]),
    ]:
        assert client.get(url).status_code == 404
    assert post(client, gate, people.outsider).status_code == 404


def test_what_does_not_hold_is_shown_at_its_field_and_nothing_is_lost(client: Client, lab: Lab, people: People) -> None:
    response = post(client, ask(lab), people.reviewer, threshold="99", reason="by eye")
    text = response.content.decode()
    assert response.status_code == 400
    assert 'value="99"' in text and "by eye" in text
    assert "less than or equal to 10" in text


def test_a_reason_that_is_owed_is_asked_for_with_the_answers_kept(client: Client, lab: Lab, people: People) -> None:
    response = post(client, ask(lab), people.reviewer, threshold="3.5")
    text = response.content.decode()
    assert response.status_code == 400
    assert "say why" in text and 'value="3.5"' in text


def test_a_stale_post_says_what_changed_and_keeps_the_reason(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    response = post(client, gate, people.reviewer, seen_digest="0" * 64, reason=HOSTILE)
    text = response.content.decode()
    assert response.status_code == 409
    assert "is not what Choose the threshold" in text
    assert "&lt;script&gt;alert(1)" in text and HOSTILE not in text
    assert f'value="{gate.digest}"' in text


def test_a_late_post_is_told_who_decided_and_keeps_the_reason(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    answer(gate, people.administrator)
    response = post(client, gate, people.reviewer, reason="the needle is bent")
    text = response.content.decode()
    assert response.status_code == 409
    assert "has been decided: approve by administrator" in text
    assert "What you had typed" in text and "the needle is bent" in text


def test_an_administrator_may_overrule_with_a_reason(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab, policy={"who": ["reviewer"]})
    text = page(client, gate, people.administrator)
    assert "Overrule" in text and 'name="override"' in text
    response = post(client, gate, people.administrator, override="1", reason="the reviewer is away")
    assert response.status_code == 302
    assert Decision.objects.get().override is True


def test_what_does_not_hold_is_told_with_the_name_of_its_field(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    told = post(client, gate, people.reviewer, "consequence", threshold="").content.decode()
    assert '<li class="error">Threshold: This field is required.</li>' in told


def test_the_consequence_is_told_and_changes_nothing(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    response = post(client, gate, people.reviewer, "consequence", threshold="99")
    assert "do not hold yet" in response.content.decode()
    preview = post(client, gate, people.reviewer, preview="1", reason="kept")
    assert preview.status_code == 200 and "kept" in preview.content.decode()
    assert not Decision.objects.exists()


def test_delegating_reopening_and_withdrawing_by_plain_forms(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    response = post(client, gate, people.reviewer, "delegate", to_username="administrator", reason="you know it")
    assert response.status_code == 302
    gate.refresh_from_db()
    assert gate.delegated_to == people.administrator
    assert post(client, gate, people.operator, "withdraw", reason="asked too early").status_code == 302
    response = post(client, gate, people.reviewer, "reopen", reason="now it is time")
    fresh = Gate.objects.get(iteration=2)
    assert response.headers["Location"] == reverse("gates:detail", args=[fresh.pk])
    assert "To iteration 2" in page(client, gate, people.viewer)


def test_a_refused_delegation_keeps_its_reason(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    response = post(client, gate, people.reviewer, "delegate", to_username="administrator", reason=" ")
    assert response.status_code == 400
    response = post(client, gate, people.reviewer, "delegate", to_username="viewer", reason="you know it")
    assert response.status_code == 400
    assert "you know it" in response.content.decode()


def test_a_gate_of_an_unknown_protocol_is_read_only(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    Gate.objects.filter(pk=gate.pk).update(protocol="gone")
    text = page(client, gate, people.reviewer)
    assert "is not installed here" in text and 'name="verdict"' not in text


def test_hostile_text_is_shown_as_text(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    Gate.objects.filter(pk=gate.pk).update(title=HOSTILE, context=HOSTILE, notes=[HOSTILE])
    add_picture(gate, "x", title=HOSTILE, caption=HOSTILE, item=HOSTILE)
    text = page(client, gate, people.reviewer)
    assert HOSTILE not in text
    assert text.count("&lt;script&gt;") >= 5


def test_evidence_is_served_sealed_and_answered_from_the_cache(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    piece = add_picture(gate, "a")
    client.force_login(people.viewer)
    url = reverse("gates:evidence", args=[gate.pk, piece.uuid])
    response = client.get(url)
    assert response.content == PNG
    assert response.headers["Content-Type"] == "image/png"
    assert response.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"].startswith("private")
    again = client.get(url, headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_evidence_of_another_gate_is_not_found(client: Client, lab: Lab, people: People) -> None:
    gate, other = ask(lab), ask(lab)
    piece = add_picture(other, "a")
    client.force_login(people.viewer)
    assert client.get(reverse("gates:evidence", args=[gate.pk, piece.uuid])).status_code == 404


def test_evidence_that_is_lost_is_told_in_words(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    piece = add_picture(gate, "a")
    Evidence.objects.filter(pk=piece.pk).update(sha256="0" * 64)
    client.force_login(people.viewer)
    response = client.get(reverse("gates:evidence", args=[gate.pk, piece.uuid]))
    assert response.status_code == 410
    assert "missing from the evidence store" in response.content.decode()


def test_the_pulse_is_silent_until_something_changes(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    text = page(client, gate, people.reviewer)
    url = re.search(r'hx-get="([^"]*pulse[^"]*)"', text)
    assert url is not None
    asked = url[1].replace("&amp;", "&")
    assert client.get(asked, headers={"HX-Request": "true"}).status_code == 204
    author = Author.person(people.administrator, Door.API)
    answer_gate(gate_id=gate.pk, author=author, verdict="approve", answers={"threshold": 2.5}, seen_digest=gate.digest)
    told = client.get(asked, headers={"HX-Request": "true"})
    assert told.status_code == 286
    assert "has changed since you opened it" in told.content.decode()
    assert "HX-Request" in told.headers["Vary"]
    reader = client.get(asked.replace("form=1", "form=0"), headers={"HX-Request": "true"})
    assert reader.headers["HX-Refresh"] == "true"


@pytest.mark.parametrize("pieces", [1, 40])
def test_the_queries_do_not_grow_with_the_evidence(
    client: Client, lab: Lab, people: People, django_assert_max_num_queries: DjangoAssertNumQueries, pieces: int
) -> None:
    gate = ask(lab)
    for number in range(pieces):
        add_picture(gate, f"p{number:03}", item=f"TS_{number:03}")
    client.force_login(people.reviewer)
    with django_assert_max_num_queries(24):
        client.get(reverse("gates:detail", args=[gate.pk]))


def test_that_an_earlier_decision_is_replaced_is_said_beforehand(client: Client, lab: Lab, people: People) -> None:
    gate = ask(lab)
    assert "replaces an earlier decision" not in page(client, gate, people.reviewer)
    earlier = answer(gate, people.reviewer).decision
    apply_gate(gate.pk)
    fresh = reopen_gate(gate_id=gate.pk, author=Author.person(people.reviewer, Door.WEB), reason="a second look")

    text = page(client, fresh, people.reviewer)

    assert "Your answer replaces an earlier decision (approve by reviewer" in text and "a reason is owed" in text
    assert client.get(f"/api/v1/gates/{fresh.pk}/").json()["replaces"] == str(earlier.uuid)
    assert post(client, fresh, people.reviewer).status_code == 400
    assert post(client, fresh, people.reviewer, reason="looked again").status_code == 302
