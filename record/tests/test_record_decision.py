"""What a decision keeps, and what it refuses to."""

import json
from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import transaction

from record import heads
from record.errors import BadInput
from record.models import GENESIS, ActorKind, ChainHead, Decision, Door, Event, Lab, Statement
from record.services import Author, Ruling, Subject, record_decision, record_event
from record.tests.factories import People, decide, make_lab, make_subject
from record.values import REASON_LIMIT_BYTES


def test_a_decision_keeps_all_that_was_said(lab: Lab, people: People) -> None:
    subject = make_subject("phase align of Ångström")
    gate = uuid4()
    decision = decide(
        lab,
        people.reviewer,
        subject=subject,
        reason="layers are sharp\r\nand the drift is small",
        answers={"threshold": 0.4, "series": ("a", "b")},
        evidence={"digest": "d" * 64, "items": {"stack": "e" * 64}},
        config_before={"ANGPIX": 10},
        config_after={"ANGPIX": 8.5},
        gate_uuid=gate,
        iteration=2,
    )
    kept = Decision.objects.get()
    assert (kept.number, kept.previous_digest, kept.lab) == (1, GENESIS, lab)
    assert (kept.subject_uuid, kept.root_uuid, kept.subject_label) == (subject.uuid, subject.root, subject.label)
    assert (kept.gate_uuid, kept.iteration, kept.actor, kept.door) == (gate, 2, people.reviewer, Door.WEB)
    assert kept.evidence == {"digest": "d" * 64, "items": {"stack": "e" * 64}}
    assert (kept.config_before, kept.config_after) == ({"ANGPIX": 10}, {"ANGPIX": 8.5})
    assert kept.statement.reason == "layers are sharp\nand the drift is small"
    assert kept.statement.answers == {"threshold": 0.4, "series": ["a", "b"]}
    assert json.loads(kept.canonical)["actor"] == "reviewer"
    assert "sharp" not in kept.canonical  # what was written can be struck; only its digest is in the chain
    assert (decision.uuid, decision.at, decision.digest) == (kept.uuid, kept.at, kept.digest)  # usable as returned
    assert isinstance(decision.uuid, UUID) and decision.at.tzinfo is UTC


def test_the_next_one_is_linked_to_it_and_the_head_moves_on(lab: Lab, people: People) -> None:
    first, second = decide(lab, people.reviewer), decide(lab, people.reviewer)
    assert (second.number, second.previous_digest) == (2, first.digest)
    head = ChainHead.objects.get(lab=lab)
    assert (head.count, head.digest) == (2, second.digest)


def test_each_lab_has_a_chain_of_its_own(lab: Lab, people: People) -> None:
    decide(lab, people.reviewer)
    elsewhere = decide(Lab.objects.get(slug="other"), people.outsider)
    assert (elsewhere.number, elsewhere.previous_digest) == (1, GENESIS)


def test_a_policy_decides_as_itself(lab: Lab) -> None:
    with transaction.atomic():
        decision = record_decision(
            lab_id=lab.pk, subject=make_subject(), author=Author.policy("time-out"), ruling=Ruling("approve")
        )
    assert (decision.actor_kind, decision.actor, decision.actor_name) == (ActorKind.POLICY, None, "time-out")


def test_a_renamed_person_keeps_the_name_of_then(lab: Lab, people: People) -> None:
    decision = decide(lab, people.reviewer)
    people.reviewer.username = "married"
    people.reviewer.save()
    decision.refresh_from_db()
    assert (decision.actor_name, decision.actor.username) == ("reviewer", "married")


def test_an_author_is_a_person_or_has_no_user(people: People) -> None:
    with pytest.raises(ValueError, match="needs a user"):
        Author(ActorKind.PERSON, "nobody", Door.WEB)
    with pytest.raises(ValueError, match="has no user"):
        Author(ActorKind.POLICY, "time-out", Door.POLICY, people.reviewer)


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_an_override_and_a_correction_need_a_reason(lab: Lab, people: People, reason: str) -> None:
    earlier = decide(lab, people.reviewer)
    with pytest.raises(BadInput, match="override needs a reason"):
        decide(lab, people.administrator, override=True, reason=reason)
    with pytest.raises(BadInput, match="replaces an earlier one needs a reason"):
        decide(lab, people.reviewer, supersedes=earlier, reason=reason)
    later = decide(lab, people.administrator, supersedes=earlier, override=True, reason="the mask was wrong")
    assert list(earlier.superseded_by.all()) == [later]


def test_a_decision_of_another_lab_can_not_be_replaced(lab: Lab, people: People) -> None:
    earlier = decide(lab, people.reviewer)
    with pytest.raises(BadInput, match="of the same lab"):
        decide(Lab.objects.get(slug="other"), people.outsider, supersedes=earlier, reason="wrong")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"reason": "x" * (REASON_LIMIT_BYTES + 1)}, r"The reason is 1\.0 MB long"),
    ({"reason": "half a pair: \ud83d"}, r"can't be kept \(U\+D83D, the 14\. character"),
    ({"reason": "\x1b[31mred"}, r"U\+001B, the 1\. character"),
    ({"reason": "nought: \0"}, r"U\+0000"),
    ({"answers": {"threshold": float("nan")}}, "The answers, threshold is nan, which is not a number"),
    ({"answers": {"scores": [1.0, float("inf")]}}, "The answers, scores, item 2 is inf"),
    (
        {"config_after": {"ids": {"seed": 2**64}}},
        "The configuration after, ids, seed is 18446744073709551616, too large",
    ),
    ({"answers": {"when": uuid4()}}, "The answers, when is a UUID, which JSON can't hold"),
    ({"answers": {1: "one"}}, "The answers has the name 1, which is not text"),
    ({"answers": {"note": "\udc80"}}, r"The answers, note holds a character that can't be kept \(U\+DC80"),
    ({"evidence": {"\0": 1}}, "A name in The evidence holds a character"),
    ({"answers": {"text": "x" * 5_000_000}}, r"The answers is 5\.0 MB long"),
    ({"verdict": ""}, "A verdict is a word"),
    ({"verdict": "x" * 61}, "A verdict is a word"),
]


@pytest.mark.parametrize(("ruling", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_can_not_be_kept_is_refused_in_words_and_nothing_is_written(
    lab: Lab, people: People, ruling: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        decide(lab, people.reviewer, **ruling)
    assert not Decision.objects.exists() and not Statement.objects.exists()


def test_too_deep_is_refused(lab: Lab, people: People) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"in": deep}
    with pytest.raises(BadInput, match="nested too deeply"):
        decide(lab, people.reviewer, answers=deep)


def test_a_reason_of_the_full_length_and_any_script_is_kept(lab: Lab, people: People) -> None:
    reason = "Ångström 中文 😀\t" + "x" * (REASON_LIMIT_BYTES - 40)
    assert decide(lab, people.reviewer, reason=reason).statement.reason == reason


def test_labels_from_odd_file_names_are_kept_readable(lab: Lab, people: People) -> None:
    odd = b"ts_\xff\x1b01".decode("utf-8", "surrogateescape")
    decision = decide(lab, people.reviewer, subject=Subject("tilt_series", uuid4(), odd + "x" * 400))
    assert decision.subject_label.startswith("ts_\ufffd\u241b01x") and len(decision.subject_label) == 300


def test_an_event_is_never_refused_for_what_it_tells(lab: Lab) -> None:
    event = record_event(
        lab_id=lab.pk,
        kind="job.fail",
        subject=make_subject(),
        message="end of log: \x1b[1m\udcff\0" + "x" * 2000,
        data={"score": float("nan"), "path": uuid4, 3: {"a"}, "big": 2**70},
    )
    event.refresh_from_db()
    assert event.message.startswith("end of log: \u241b[1m\ufffd\u2400xx") and len(event.message) == 1000
    assert event.data["score"] == "nan" and event.data["3"] == ["a"] and event.data["big"] == 2**70


def test_an_event_of_an_unknown_kind_is_a_programming_error(lab: Lab) -> None:
    with pytest.raises(KeyError):
        record_event(lab_id=lab.pk, kind="job.vanish", subject=make_subject())
    assert not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_is_a_programming_error(lab: Lab, people: People) -> None:
    with pytest.raises(RuntimeError):
        record_decision(
            lab_id=lab.pk,
            subject=make_subject(),
            author=Author.person(people.reviewer, Door.WEB),
            ruling=Ruling("approve"),
        )


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_leaves_neither_row_nor_head(lab: Lab, people: People) -> None:
    kept = decide(lab, people.reviewer)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        decide(lab, people.reviewer)  # a transaction within a transaction
        raise ZeroDivisionError
    assert [head.number for head in heads.stream()] == [1]
    assert ChainHead.objects.get(lab=lab).digest == kept.digest
    assert decide(lab, people.reviewer).number == 2


@pytest.mark.django_db(transaction=True)
def test_a_heads_file_that_can_not_be_written_is_logged_and_stops_nothing(
    people: People, lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RECORD_HEADS.mkdir(parents=True)
    decide(lab, people.reviewer)
    assert Decision.objects.count() == 1
    assert "could not write the head of lab" in caplog.text


def test_heads_are_read_past_a_torn_line(caplog: pytest.LogCaptureFixture) -> None:
    heads.append(1, 1, "a")
    with settings.RECORD_HEADS.open("ab") as file:
        file.write(b'{"lab": 1, "num\n\n[]\n')
    heads.append(1, 2, "b")
    assert list(heads.stream()) == [heads.Head(1, 1, "a"), heads.Head(1, 2, "b")]
    assert caplog.text.count("can't be read") == 2


def test_a_lab_that_is_not_there_is_a_programming_error(db: None) -> None:
    gone = make_lab("gone")
    Lab.objects.all().delete()
    with pytest.raises(Lab.DoesNotExist), transaction.atomic():
        record_decision(
            lab_id=gone.pk or 99, subject=make_subject(), author=Author.policy("time-out"), ruling=Ruling("approve")
        )
