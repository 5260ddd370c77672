"""The export can be checked with nothing but a SHA-256."""

import hashlib
import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from record.models import GENESIS, Door, Lab
from record.services import Author, strike_statement
from record.tests.factories import People, decide
from record.tests.harness import lifted


def exported(**options: object) -> list[dict]:
    out = StringIO()
    call_command("export_record", stdout=out, **options)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_export_proves_itself(lab: Lab, people: People) -> None:
    first = decide(lab, people.reviewer, reason="Ångström\nand a line end \u2028", answers={"threshold": 0.4})
    decide(lab, people.reviewer, reason="second")
    strike_statement(decision=first, author=Author.person(people.administrator, Door.CLI), reason="a password")
    lines = exported()
    previous = GENESIS
    for line in lines:
        assert line["previous_digest"] == previous
        assert line["digest"] == sha256(f"{previous}\n{line['canonical']}")
        assert line["decision"] == json.loads(line["canonical"])
        previous = line["digest"]
    written = {name: lines[1]["statement"][name] for name in ("answers", "reason", "salt")}
    assert lines[1]["decision"]["statement"] == sha256(json.dumps(written, separators=(",", ":"), sort_keys=True))
    assert lines[0]["statement"] == {"salt": "", "reason": "", "answers": {}, "struck_by": 3}


def test_one_lab_and_what_is_new(lab: Lab, people: People) -> None:
    for _ in range(3):
        decide(lab, people.reviewer)
    decide(Lab.objects.get(slug="other"), people.outsider)
    assert len(exported()) == 4
    assert [line["decision"]["number"] for line in exported(lab=lab.slug, since=1)] == [2, 3]
    assert exported(lab="other", since=1) == []
    with pytest.raises(CommandError, match="There is no lab elsewhere"):
        exported(lab="elsewhere")


def test_a_record_that_does_not_hold_is_exported_too(lab: Lab, people: People) -> None:
    decide(lab, people.reviewer)
    with lifted(), connection.cursor() as cursor:
        cursor.execute("UPDATE record_decision SET canonical = 'gone'")
        cursor.execute("DELETE FROM record_statement")
    (line,) = exported()
    assert (line["canonical"], line["decision"], line["statement"]) == ("gone", None, None)
