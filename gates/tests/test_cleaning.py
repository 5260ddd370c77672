"""What nothing was decided on is cleared away after a while; what a decision refers to never is."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from gates import store
from gates.models import Evidence, Gate
from gates.quota import over_quota
from gates.services import reopen_gate, withdraw_gate
from gates.services.cleaning import Cleared, clean_evidence
from gates.store import read_evidence
from gates.tests.doubles import answer, ask
from gates.tests.test_prepare import finish, output, piece, preparing, renderer, target  # noqa: F401 - fixtures
from gates.tests.test_store import png
from record.models import Door, Event, Lab
from record.services import Author
from record.tests.factories import People

LONG_AGO = timedelta(days=100)


def horizon() -> Any:
    return timezone.now() - timedelta(days=90)


def show(gate: Gate, name: str, data: bytes) -> Evidence:
    """A piece that was put, and shown at the gate, long ago."""
    kept = store.put(data, name=f"{name}.png", kind="image")
    age(kept.sha256)
    return Evidence.objects.create(
        gate=gate, name=name, kind="image", media_type=kept.media_type, sha256=kept.sha256, size_bytes=kept.size_bytes
    )


def age(sha256: str) -> None:
    then = (timezone.now() - LONG_AGO).timestamp()
    os.utime(store.path_of(sha256), (then, then))


def end_long_ago(gate: Gate) -> None:
    Gate.objects.filter(pk=gate.pk).update(ended_at=timezone.now() - LONG_AGO)


@pytest.fixture
def withdrawn(lab: Lab, people: People) -> Gate:
    """A gate that was withdrawn long ago, at which one picture was shown."""
    gate = ask(lab)
    show(gate, "a", png(3, 3))
    withdraw_gate(gate_id=gate.pk, author=Author.person(people.operator, Door.WEB), reason="asked by mistake")
    end_long_ago(gate)
    return gate


def test_of_an_undecided_gate_all_goes_and_the_gate_says_so(withdrawn: Gate, lab: Lab) -> None:
    piece = withdrawn.evidence.get()
    size = piece.size_bytes

    assert clean_evidence(before=horizon(), dry_run=True) == Cleared(1, 1, 1, size)
    assert store.path_of(piece.sha256).exists() and withdrawn.evidence.count() == 1
    assert clean_evidence(before=horizon()) == Cleared(1, 1, 1, size)

    withdrawn.refresh_from_db()
    assert not store.path_of(piece.sha256).exists() and not withdrawn.evidence.exists()
    assert "was cleared away on" in withdrawn.notes[-1]
    assert Event.objects.get(kind="gate.clean").subject_uuid == withdrawn.uuid
    assert clean_evidence(before=horizon()) == Cleared()


def test_what_a_decision_refers_to_stays_even_where_an_undecided_gate_showed_it_too(
    lab: Lab, people: People, withdrawn: Gate
) -> None:
    decided = ask(lab)
    show(decided, "same", png(3, 3))
    answer(decided, people.reviewer)
    Gate.objects.filter(pk=decided.pk).update(state="applied")
    end_long_ago(decided)

    cleared = clean_evidence(before=horizon())

    assert (cleared.pieces, cleared.files) == (1, 0)
    assert read_evidence(decided.evidence.get()) == png(3, 3)


def test_a_decision_keeps_files_whose_rows_are_gone(lab: Lab, people: People) -> None:
    gate = ask(lab)
    shown = show(gate, "a", png(5, 5))
    answer(gate, people.reviewer)
    Evidence.objects.all().delete()
    assert clean_evidence(before=horizon()) == Cleared()
    assert store.path_of(shown.sha256).exists()


@pytest.mark.parametrize("state", ["preparing", "prepare_failed", "open", "decided", "applying", "apply_failed"])
def test_a_gate_in_progress_keeps_its_evidence(lab: Lab, state: str) -> None:
    gate = ask(lab)
    shown = show(gate, "a", png())
    Gate.objects.filter(pk=gate.pk).update(state=state)
    assert clean_evidence(before=horizon()) == Cleared()
    assert read_evidence(shown) == png()


def test_so_does_one_that_ended_lately(withdrawn: Gate) -> None:
    Gate.objects.filter(pk=withdrawn.pk).update(ended_at=timezone.now())
    assert clean_evidence(before=horizon()) == Cleared()


def test_so_does_one_that_is_asked_again(withdrawn: Gate, people: People) -> None:
    reopen_gate(gate_id=withdrawn.pk, author=Author.person(people.administrator, Door.WEB), reason="it was right")
    assert clean_evidence(before=horizon()) == Cleared()


def test_files_of_no_gate_go_once_they_are_old(db: None) -> None:
    old, fresh = (store.put(png(n, n), name="a.png", kind="image") for n in (2, 3))
    age(old.sha256)
    assert clean_evidence(before=horizon()) == Cleared(0, 0, 1, old.size_bytes)
    assert store.path_of(fresh.sha256).exists() and not store.path_of(old.sha256).exists()


def test_what_is_put_again_is_as_good_as_new(db: None) -> None:
    kept = store.put(png(), name="a.png", kind="image")
    age(kept.sha256)
    store.put(png(), name="b.png", kind="image")
    assert clean_evidence(before=horizon()) == Cleared()


def test_what_is_put_while_it_is_cleared_away_is_there_afterwards(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every step of the clean-up somebody puts the same bytes."""
    kept = store.put(png(), name="a.png", kind="image")
    path = store.path_of(kept.sha256)
    for step in ("rename", "stat", "unlink"):
        store.put(png(), name="a.png", kind="image")
        age(kept.sha256)
        real = getattr(type(path), step)
        with monkeypatch.context() as patch:

            def meanwhile(self: Any, *given: Any, real: Any = real, patch: Any = patch, **more: Any) -> Any:
                patch.undo()
                store.put(png(), name="a.png", kind="image")
                return real(self, *given, **more)

            patch.setattr(type(path), step, meanwhile)
            store.discard(kept.sha256, before=horizon())
        assert path.read_bytes() == png(), step


def test_what_a_killed_clean_up_had_moved_aside_comes_back(withdrawn: Gate) -> None:
    (piece,) = withdrawn.evidence.all()
    path = store.path_of(piece.sha256)
    path.rename(path.with_name(f".{path.name}.aside"))
    with store.locked(shared=True):
        assert read_evidence(piece)
    assert not path.with_name(f".{path.name}.aside").exists()


def test_but_takes_no_place_of_what_was_put_anew(withdrawn: Gate) -> None:
    (piece,) = withdrawn.evidence.all()
    path = store.path_of(piece.sha256)
    path.rename(path.with_name(f".{path.name}.aside"))
    store.put(png(3, 3), name="new.png", kind="image")
    put_at = path.stat().st_mtime
    with store.locked(shared=True):
        assert path.stat().st_mtime == put_at
    assert not path.with_name(f".{path.name}.aside").exists()


def test_what_killed_writers_left_goes_once_it_is_old(withdrawn: Gate) -> None:
    (piece,) = withdrawn.evidence.all()
    folder = store.path_of(piece.sha256).parent
    old, young = (folder / f".{'a' * 64}.{number}.0123abcd" for number in (1, 2))
    for path in (old, young):
        path.write_bytes(b"a part")
    then = (timezone.now() - LONG_AGO).timestamp()
    os.utime(old, (then, then))
    clean_evidence(before=horizon(), dry_run=True)
    assert old.exists()
    clean_evidence(before=horizon())
    assert (old.exists(), young.exists()) == (False, True)


def test_beyond_the_quota_a_gate_says_what_to_do(
    lab: Lab,
    preparing: Any,  # noqa: F811
    tmp_path: Any,
    settings: Any,
) -> None:
    preparing(output(tmp_path / "slices", piece("a", "a.png"), files={"a.png": png()}))
    gate = ask(lab)
    settings.EVIDENCE_QUOTA_GIB = 1
    elsewhere = ask(lab, key="elsewhere")
    kept = Evidence.objects.create(
        gate=elsewhere, name="huge", kind="image", media_type="image/png", sha256="0" * 64, size_bytes=2**30
    )

    gate = finish(gate)

    assert gate.state == "prepare_failed"
    assert "may take 1 GiB" in gate.error and "clean_evidence" in gate.error
    assert over_quota(Lab.objects.create(name="b", slug="b"), [{"size_bytes": 5}]) == ""
    kept.delete()
    assert over_quota(lab, [{"size_bytes": 5}]) == ""


def test_what_never_arrived_whole_is_removed(db: None, settings: Any) -> None:
    with store.Incoming("a.png") as incoming:
        incoming.write(b"half")
        (left,) = Path(settings.EVIDENCE_ROOT).glob(".incoming.*")
        clean_evidence(before=timezone.now() - timedelta(days=1))
        assert left.exists()
        clean_evidence(before=timezone.now() + timedelta(days=1))
        assert not left.exists()
