"""A record that holds is said to; each way of tampering with it is found and told in words."""

import json
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from record.canonical import canonical_text, link_digest
from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import ChainHead, Decision, Door, Lab, Statement
from record.services import Author, strike_statement
from record.tests.factories import People, decide
from record.tests.harness import lift, unchecked
from record.verify import verify_record

pytestmark = pytest.mark.django_db(transaction=True)  # heads are written at commit


@pytest.fixture
def chain(lab: Lab, people: People) -> list[Decision]:
    """Five decisions, with a second lab's beside them."""
    decide(Lab.objects.get(slug="other"), people.outsider)
    return [
        decide(
            lab, people.reviewer, reason=f"look {i}", answers={"threshold": i / 10}, config_after={"ANGPIX": 2.0 * i}
        )
        for i in range(1, 6)
    ]


def sql(statement: str, *values: Any) -> None:
    """Past the record's protection, as somebody with the database file could."""
    with unchecked() as cursor:
        cursor.execute(statement, values)


def faults() -> list[str]:
    return [str(fault) for fault in verify_record(Lab.objects.all())]


def test_an_untouched_record_is_whole(chain: list[Decision]) -> None:
    assert faults() == []
    out = StringIO()
    call_command("verify_record", stdout=out)
    assert out.getvalue() == (
        "lab other: 1 decision, all as recorded\nlab tomography: 5 decisions, all as recorded\nThe record is whole.\n"
    )


def test_an_empty_record_is_said_to_be_empty(lab: Lab) -> None:
    out = StringIO()
    call_command("verify_record", stdout=out)
    assert out.getvalue() == "The record is empty.\n"


def test_renaming_a_lab_or_a_person_is_no_fault(chain: list[Decision], people: People, lab: Lab) -> None:
    people.reviewer.username = "married"
    people.reviewer.save()
    lab.slug = "cryo-et"
    lab.save()
    assert faults() == []


CHANGES = {
    "verdict": "reject",
    "subject_label": "phase pick",
    "subject_kind": "run",
    "subject_uuid": "0" * 32,
    "root_uuid": "1" * 32,
    "gate_uuid": "2" * 32,
    "iteration": 7,
    "actor_id": 1,
    "actor_name": "Somebody Else",
    "actor_kind": "agent",
    "door": "cli",
    "at": "2020-01-01 00:00:00",
    "evidence": '{"digest": "another"}',
    "config_before": '{"ANGPIX": 1}',
    "config_after": "{}",
    "override": True,
    "supersedes_id": 1,
    "uuid": "3" * 32,
}


@pytest.mark.parametrize("column", CHANGES)
def test_an_edited_column_is_found(chain: list[Decision], column: str) -> None:
    value = chain[0].pk if column == "supersedes_id" else CHANGES[column]
    sql(f"UPDATE record_decision SET {column} = %s WHERE id = %s", value, chain[2].pk)  # noqa: S608
    name = "supersedes" if column == "supersedes_id" else column
    assert faults() == [
        f"lab tomography, decision 3: its column {name} was changed: it differs from the text that the digest is over."
    ]


def test_every_column_is_covered() -> None:
    chained = {"id", "lab_id", "number", "previous_digest", "canonical", "digest"}
    assert set(CHANGES) == {field.column for field in Decision._meta.concrete_fields} - chained


def test_an_edited_text_is_found(chain: list[Decision]) -> None:
    forged = chain[2].canonical.replace('"approve"', '"reject"')
    sql("UPDATE record_decision SET canonical = %s, verdict = 'reject' WHERE id = %s", forged, chain[2].pk)
    assert faults() == ["lab tomography, decision 3: its text was changed: the digest is not that of the text."]


@pytest.mark.parametrize("text", ["", "[]", "no json", '{"b": 1, "a": 2}'])
def test_a_text_that_is_none_is_found(chain: list[Decision], text: str) -> None:
    sql("UPDATE record_decision SET canonical = %s WHERE id = %s", text, chain[2].pk)
    assert len(faults()) == 2 and all("decision 3: its text" in fault for fault in faults())


def test_an_edited_text_with_a_digest_to_match_breaks_the_next_link(chain: list[Decision]) -> None:
    forged = chain[2].canonical.replace('"approve"', '"reject"')
    digest = link_digest(chain[2].previous_digest, forged)
    sql(
        "UPDATE record_decision SET canonical = %s, digest = %s, verdict = 'reject' WHERE id = %s",
        forged,
        digest,
        chain[2].pk,
    )
    assert [fault.split(": ")[0] for fault in faults()] == ["lab tomography, decision 4", "lab tomography"]
    assert "does not follow the decision before it" in faults()[0]
    assert "know of 1 other decision than the database's own, from number 3 on" in faults()[1]


def test_a_gap_is_found(chain: list[Decision]) -> None:
    sql("DELETE FROM record_decision WHERE id IN (%s, %s)", chain[1].pk, chain[2].pk)
    assert faults()[0] == ("lab tomography, decision 4: the record has a gap: decisions 2 to 3 are missing before it.")
    assert len(faults()) == 2 and "know of 2 decisions that the database has not, from number 2" in faults()[1]


def test_a_gap_at_the_beginning_is_found(chain: list[Decision]) -> None:
    sql("DELETE FROM record_decision WHERE id = %s", chain[0].pk)
    assert "decision 2: the record has a gap: decision 1 is missing before it." in faults()[0]


def test_a_cut_tail_is_found(chain: list[Decision]) -> None:
    sql("DELETE FROM record_decision WHERE number > 3")
    assert faults()[0] == "lab tomography: the end of the record was cut: decisions 4 to 5 are missing."


def test_a_tail_cut_together_with_its_head_is_found_by_the_heads_outside(chain: list[Decision]) -> None:
    sql("DELETE FROM record_decision WHERE number > 3")
    sql("DELETE FROM record_statement WHERE decision_id IN (%s, %s)", chain[3].pk, chain[4].pk)
    sql("UPDATE record_chainhead SET count = 3, digest = %s WHERE count = 5", chain[2].digest)
    (fault,) = faults()
    assert "know of 2 decisions that the database has not, from number 4 on" in fault
    assert "put back to an older state" in fault


def test_a_database_put_back_that_went_on_is_found(chain: list[Decision], lab: Lab, people: People) -> None:
    test_a_tail_cut_together_with_its_head_is_found_by_the_heads_outside(chain)
    for _ in range(3):
        decide(lab, people.reviewer, reason="went on from the older state")
    (fault,) = faults()
    assert "know of 2 other decisions than the database's own, from number 4 on" in fault


def test_another_database_is_found(chain: list[Decision]) -> None:
    with settings.RECORD_HEADS.open("a") as file:
        file.write('{"lab": 999, "number": 1, "digest": "x"}\n')
    (fault,) = faults()
    assert fault.startswith("lab with key 999 (which is not in the database): the heads kept outside")


def test_a_lost_heads_file_is_no_fault(chain: list[Decision]) -> None:
    settings.RECORD_HEADS.unlink()
    assert faults() == []


def test_a_forged_head_is_found(chain: list[Decision]) -> None:
    sql("UPDATE record_chainhead SET digest = 'x' WHERE count = 5")
    assert faults() == ["lab tomography: the head of the chain was changed: its digest is not that of decision 5."]


def test_a_head_set_back_is_found(chain: list[Decision]) -> None:
    sql("UPDATE record_chainhead SET count = 4, digest = %s WHERE count = 5", chain[3].digest)
    (fault,) = faults()
    assert fault.startswith("lab tomography, decision 5: it lies beyond the head of the chain")


def test_a_head_removed_is_found(chain: list[Decision]) -> None:
    sql("DELETE FROM record_chainhead")
    assert sum("beyond the head" in fault for fault in faults()) == 6


def test_a_fork_is_found(chain: list[Decision], lab: Lab) -> None:
    """Two decisions that both follow the fourth."""
    twin = Decision.objects.get(pk=chain[4].pk)
    twin.pk, twin.number = None, 6
    twin.uuid = "4" * 32
    twin.canonical = canonical_text(
        json.loads(twin.canonical) | {"number": 6, "uuid": "44444444-4444-4444-4444-444444444444"}
    )
    twin.digest = link_digest(twin.previous_digest, twin.canonical)
    twin.save()
    written = chain[4].statement
    Statement.objects.create(decision=twin, salt=written.salt, reason=written.reason, answers=written.answers)
    ChainHead.objects.filter(lab=lab).update(count=6, digest=twin.digest)
    assert faults() == [
        "lab tomography, decision 6: it does not follow the decision before it: the chain forks, or that one was"
        " exchanged."
    ]


def test_a_chain_moved_to_another_lab_is_found(chain: list[Decision], lab: Lab) -> None:
    sql("UPDATE record_decision SET number = 9, lab_id = %s WHERE lab_id <> %s", lab.pk, lab.pk)
    assert any("decision 9: it lies beyond the head" in fault for fault in faults())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE record_statement SET reason = 'another'", "(reason or answers) was changed"),
        ("UPDATE record_statement SET answers = '{\"threshold\": 0.9}'", "(reason or answers) was changed"),
        ("UPDATE record_statement SET salt = 'x'", "(reason or answers) was changed"),
        ("UPDATE record_statement SET reason = '', answers = '{}', salt = ''", "(reason or answers) was changed"),
        ("DELETE FROM record_statement", "is gone, though nobody struck it"),
    ],
)
def test_a_changed_statement_is_found(chain: list[Decision], change: str, words: str) -> None:
    sql(f"{change} WHERE decision_id = %s", chain[2].pk)
    (fault,) = faults()
    assert fault.startswith("lab tomography, decision 3: what was written with it") and words in fault


def strike(decision: Decision, people: People, reason: str = "it held a password") -> Decision:
    return strike_statement(decision=decision, author=Author.person(people.administrator, Door.CLI), reason=reason)


def test_a_struck_statement_is_gone_and_the_record_holds(chain: list[Decision], people: People) -> None:
    tombstone = strike(chain[2], people)
    struck = Statement.objects.get(pk=chain[2].pk)
    assert (struck.reason, struck.answers, struck.salt, struck.struck_by) == ("", {}, "", tombstone)
    assert (tombstone.number, tombstone.supersedes, tombstone.override) == (6, chain[2], True)
    assert str(struck) == "(struck)"
    assert faults() == []


def test_striking_needs_an_administrator_a_reason_and_something_to_strike(
    chain: list[Decision], people: People
) -> None:
    for person in (people.viewer, people.operator, people.reviewer, people.outsider):
        with pytest.raises(NotAllowed):
            strike_statement(decision=chain[2], author=Author.person(person, Door.WEB), reason="why")
    with pytest.raises(BadInput, match="Only a person"):
        strike_statement(decision=chain[2], author=Author.policy("time-out"), reason="why")
    with pytest.raises(BadInput, match="Say why"):
        strike(chain[2], people, reason=" ")
    strike(chain[2], people)
    with pytest.raises(InvalidTransition, match="decision 3 was struck before"):
        strike(chain[2], people)
    assert Decision.objects.filter(lab=chain[2].lab).count() == 6 and faults() == []


def test_striking_without_a_tombstone_is_found(chain: list[Decision]) -> None:
    """The trigger lets a statement be struck by any decision; the walk does not."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE record_statement SET reason = '', answers = '{}', salt = '', struck_by_id = %s"
            " WHERE decision_id = %s",
            [chain[4].pk, chain[2].pk],
        )
    assert faults() == [
        "lab tomography, decision 3: what was written with it was struck by decision 5, which says nothing of it."
    ]


def test_a_struck_statement_put_back_is_found(chain: list[Decision], people: People) -> None:
    strike(chain[2], people)
    old = chain[2].statement
    sql("UPDATE record_statement SET reason = %s WHERE decision_id = %s", old.reason, chain[2].pk)
    assert ["marked as struck, and yet there" in fault for fault in faults()] == [True]
    sql("UPDATE record_statement SET struck_by_id = NULL, reason = '' WHERE decision_id = %s", chain[2].pk)
    assert any("decision 6: it strikes what was written with decision 3, which is there again" in f for f in faults())


def test_what_names_a_decision_that_is_not_there_is_found(chain: list[Decision]) -> None:
    sql("UPDATE record_decision SET supersedes_id = 9999 WHERE id = %s", chain[1].pk)
    sql("UPDATE record_statement SET struck_by_id = 9999 WHERE decision_id = %s", chain[2].pk)
    assert faults() == [
        "lab tomography, decision 2: its column supersedes was changed: there is no such decision.",
        "lab tomography, decision 3: what was written with it is marked as struck, and yet there.",
        "lab tomography, decision 3: what was written with it was struck by a decision that is not there.",
    ]


def test_the_command_tells_every_fault_and_fails(chain: list[Decision]) -> None:
    sql("UPDATE record_decision SET verdict = 'reject' WHERE number = 3")
    sql("DELETE FROM record_decision WHERE number = 5")
    out = StringIO()
    with pytest.raises(CommandError, match="does not hold: 3 faults"):
        call_command("verify_record", stdout=out)
    assert len(out.getvalue().splitlines()) == 3
    call_command("verify_record", lab="other", stdout=out)  # the other lab's chain holds
    with pytest.raises(CommandError, match="There is no lab elsewhere. The labs are: other, tomography."):
        call_command("verify_record", lab="elsewhere")


def test_an_unprotected_database_is_a_fault(chain: list[Decision]) -> None:
    lift()
    (fault,) = faults()
    assert "not protected against changes" in fault


def test_the_walk_takes_the_same_queries_however_long_the_chain(
    chain: list[Decision], lab: Lab, people: People, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(14):
        assert faults() == []
    for _ in range(20):
        decide(lab, people.reviewer)
    with django_assert_num_queries(14):
        assert faults() == []
