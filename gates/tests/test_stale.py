"""An answer counts for what was shown: this iteration, this evidence."""

import pytest

from gates import store
from gates.digest import evidence_digest
from gates.errors import GateClosed, StaleAnswer
from gates.models import Evidence, Gate
from gates.services import apply_gate, reopen_gate
from gates.tests.doubles import Threshold, answer, ask
from record.models import Decision, Door, Lab
from record.services import Author
from record.tests.factories import People


def show(gate: Gate, **pieces: str) -> Gate:
    """Put tables with these texts among the evidence of an open gate, as if they had been there when it opened."""
    for name, text in pieces.items():
        stored = store.put(text.encode(), name="a.tsv", kind="table")
        Evidence.objects.create(gate=gate, name=name, kind="table", **vars(stored))
    items = dict(gate.evidence.values_list("name", "sha256"))
    Gate.objects.filter(pk=gate.pk).update(digest=evidence_digest(items, gate.suggestion))
    gate.refresh_from_db()
    return gate


def reopened(gate: Gate, user) -> Gate:  # type: ignore[no-untyped-def]
    return reopen_gate(gate_id=gate.pk, author=Author.person(user, Door.WEB), reason="Look again.")


def test_the_decision_names_what_was_shown(lab: Lab, people: People) -> None:
    gate = show(ask(lab), scores="a\tb", picks="c")

    decision = answer(gate, people.reviewer).decision

    assert decision.evidence["digest"] == gate.digest
    assert decision.evidence["items"] == dict(gate.evidence.values_list("name", "sha256"))


@pytest.mark.parametrize("digest", ["", "0" * 64, "nonsense"])
def test_an_answer_without_the_digest_is_refused(lab: Lab, people: People, digest: str) -> None:
    gate = show(ask(lab), scores="a")

    with pytest.raises(StaleAnswer) as refused:
        answer(gate, people.reviewer, seen_digest=digest)

    assert refused.value.code == "stale" and refused.value.status == 409
    assert not Decision.objects.exists() and not gate.ballots.exists()


def test_an_answer_on_the_evidence_before_is_told_what_changed(lab: Lab, people: People, threshold: Threshold) -> None:
    old = show(ask(lab), scores="a", picks="b", gone="c")
    answer(old, people.reviewer)
    apply_gate(old.pk)
    threshold.suggestion = {"threshold": 3.0}
    new = show(reopened(old, people.reviewer), scores="A", picks="b", mask="d")

    with pytest.raises(StaleAnswer) as refused:
        answer(new, people.administrator, seen_digest=old.digest)

    assert refused.value.extra["changed"] == [
        "changed: scores",
        "new: mask",
        "gone: gone",
        "the suggestion is another",
    ]
    assert "changed: scores" in refused.value.message


def test_an_answer_to_an_iteration_that_was_reopened_is_told_of_the_new_one(lab: Lab, people: People) -> None:
    old = show(ask(lab), scores="a")
    answer(old, people.reviewer)
    apply_gate(old.pk)
    show(reopened(old, people.reviewer), scores="b")

    with pytest.raises(GateClosed) as refused:
        answer(old, people.administrator)

    assert refused.value.code == "decided"
    assert "approve by reviewer" in refused.value.message
    assert "reopened as iteration 2, which is open (changed: scores)" in refused.value.message


def test_the_digest_covers_names_hashes_and_suggestion() -> None:
    base = evidence_digest({"a": "1", "b": "2"}, {"x": 1})

    assert base == evidence_digest({"b": "2", "a": "1"}, {"x": 1.0})
    others = [({"a": "1", "b": "3"}, {"x": 1}), ({"a": "1", "c": "2"}, {"x": 1}), ({"a": "1", "b": "2"}, {"x": 2})]
    assert base not in {evidence_digest(items, suggestion) for items, suggestion in others}
