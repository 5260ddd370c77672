"""What the checkpoints of cryo-ET suggest, ask, and write back."""

from typing import Any

import pytest

from gates.models import Gate
from gates.protocols import protocol_for
from gates.services import retry_preparing
from record.errors import BadInput
from record.models import Decision, Event
from record.tests.factories import decide
from runs.models import Phase, Run
from runs.services.control import cancel_run
from runs.tests.factories import OVERLAY, Bench, phase_of, states, write_pipeline

GATES = """gates:
  - {key: settings, protocol: setup, before: 1, title: Settings}
  - key: look
    protocol: alignment_qc
    after: 2
    title: Look at it
    files: {tomogram: recon/TS_XXX.txt}
  - key: picks
    protocol: picks_qc
    after: 3a
    title: Picks
    files: {tomogram: recon/TS_XXX.txt, picks: "picks/${TM_LABEL}/TS_XXX.star"}
  - key: average
    protocol: refine
    after: 3b
    title: Refinement
    files:
      half1: average/${TM_LABEL}/half1.txt
      half2: average/${TM_LABEL}/half2.txt
      map: average/${TM_LABEL}/map.txt
"""
FIGURES = {
    "01_slices": {
        "series": {
            "TS_001": {"verdict": "good", "reason": ""},
            "TS_002": {"verdict": "bad", "reason": "contrast far below the others"},
            "TS_003": {"error": "TS_003.mrc is cut off"},
        }
    }
}


@pytest.fixture
def run(bench: Bench) -> Run:
    overlay = GATES + OVERLAY[OVERLAY.index("phases:") :]
    write_pipeline(bench.folder / "pipeline", **{"scripts/conductor.yml": overlay})
    return bench.begin()


def at(phase: Phase, key: str, protocol: str, **fields: Any) -> Gate:
    return Gate(lab=phase.run.lab, subject_uuid=phase.uuid, key=key, protocol=protocol, **fields)


def to_the_look(bench: Bench, run: Run) -> Gate:
    """Through the settings, and to the alignment gate, whose tomograms are no MRC files."""
    settings_gate = Gate.objects.get(key="settings")
    bench.answer(settings_gate, **settings_gate.suggestion)
    bench.drive()
    return Gate.objects.get(key="look")


def answered(bench: Bench, run: Run, phase: Phase, verdict: str = "approve", **answers: Any) -> Decision:
    return decide(bench.lab, bench.people.reviewer, subject=phase.subject(), verdict=verdict, answers=answers)


def test_setup_shows_the_values_with_units_and_bounds(bench: Bench, run: Run) -> None:
    gate = Gate.objects.get(key="settings")
    assert gate.state == "open"
    assert gate.suggestion == {"DIM": 32, "alpha__MIN_SCORE": 0.5, "beta__MIN_SCORE": 0.6}
    protocol = protocol_for(gate)
    form = protocol.form(gate, {"DIM": 4, "alpha__MIN_SCORE": "nan", "beta__MIN_SCORE": 2})
    assert set(form.errors) == {"DIM", "alpha__MIN_SCORE", "beta__MIN_SCORE"}
    assert form.fields["DIM"].unit == "px"  # type: ignore[attr-defined]
    assert set(protocol.verdicts_at(gate)) == {"approve", "reject"}
    assert protocol.consequence(gate, gate.suggestion) == "Begins with the values as they are."
    assert protocol.consequence(gate, gate.suggestion | {"DIM": 64}) == "Changes DIM, and begins."


def test_setup_writes_what_was_changed(bench: Bench, run: Run) -> None:
    gate = Gate.objects.get(key="settings")
    bench.answer(gate, reason="smaller", **gate.suggestion | {"DIM": 16, "beta__MIN_SCORE": 0.7})
    run.refresh_from_db()
    assert run.conf == {"DIM": "16"}
    assert {s.label: s.conf for s in run.species.all()} == {"alpha": {}, "beta": {"MIN_SCORE": "0.7"}}
    decision = Decision.objects.get()
    assert set(Event.objects.filter(kind="run.set_conf").values_list("decision", flat=True)) == {decision.pk}


def test_evidence_that_cannot_be_made_is_told_and_can_be_tried_again(bench: Bench, run: Run) -> None:
    gate = to_the_look(bench, run)
    assert gate.state == "prepare_failed" and "TS_001" in gate.error
    assert states(run)["2"] == "checkpoint"
    retry_preparing(gate_id=gate.pk, author=bench.operator)
    bench.drive()
    gate.refresh_from_db()
    assert gate.state == "prepare_failed"


def test_alignment_suggests_to_leave_out_what_is_bad(bench: Bench, run: Run) -> None:
    to_the_look(bench, run)
    gate = at(phase_of(run, "2"), "look", "alignment_qc")
    protocol = protocol_for(gate)
    gate.suggestion = protocol.suggest(gate, FIGURES)

    rows = gate.suggestion["series"]
    assert {name: row["keep"] for name, row in rows.items()} == {"TS_001": True, "TS_002": False, "TS_003": True}
    assert gate.suggestion["items"]["TS_003"] == {"verdict": "suspect", "reason": "TS_003.mrc is cut off"}
    assert protocol.consequence(gate, {"series": rows}) == "Keeps 2 tilt series, excludes 1 (TS_002)."
    assert protocol.form(gate, {"series": rows}).is_valid()
    assert not protocol.form(gate, {"series": {"TS_001": rows["TS_001"]}}).is_valid(), "none is passed over"


def test_alignment_writes_the_judgement_once(bench: Bench, run: Run) -> None:
    gate = to_the_look(bench, run)
    phase, protocol = phase_of(run, "2"), protocol_for(gate)
    rows = {
        "TS_001": {"keep": True, "verdict": "good", "note": ""},
        "TS_002": {"keep": False, "verdict": "bad", "note": "ice"},
        "TS_003": {"keep": True, "verdict": "suspect", "note": "thick"},
    }
    decision = answered(bench, run, phase, series=rows)
    for _ in range(2):
        protocol.persist(gate, decision)

    found = {s.name: (s.verdict, s.note, s.excluded_by) for s in run.tilt_series.all()}
    assert found == {
        "TS_001": ("good", "", None), "TS_002": ("bad", "ice", decision), "TS_003": ("suspect", "thick", None),
    }  # fmt: skip
    assert Event.objects.filter(kind="series.exclude").count() == 1

    protocol.persist(gate, answered(bench, run, phase, "reject", series=rows | {"TS_001": {"keep": False}}))
    assert run.tilt_series.get(name="TS_001").excluded_by is None, "only an approval is written"


def test_picks_suggest_a_threshold_and_write_it(bench: Bench, run: Run) -> None:
    to_the_look(bench, run)
    phase = phase_of(run, "3a", "alpha")
    gate = at(phase, "picks", "picks_qc")
    protocol = protocol_for(gate)
    assert protocol.suggest(gate, {})["min_score"] == 0.5, "without figures the value in use"
    gate.suggestion = protocol.suggest(gate, {"04_histogram": {"suggested_min_score": 0.123456}})
    assert gate.suggestion["min_score"] == 0.1234, "rounded down: the pick at the threshold is kept"

    rows = gate.suggestion["series"] | {"TS_003": {"keep": False, "note": "few"}}
    answers = {"min_score": 0.3, "series": rows}
    assert protocol.consequence(gate, answers) == (
        "Sets MIN_SCORE of alpha to 0.3; keeps 2 tilt series, excludes 1 (TS_003) for alpha alone."
    )
    assert not protocol.form(gate, answers | {"min_score": 7}).is_valid()
    assert protocol.form(gate, answers).is_valid()
    decision = answered(bench, run, phase, **answers)
    for _ in range(2):
        protocol.persist(gate, decision)
    assert run.species.get(label="alpha").conf == {"MIN_SCORE": "0.3"}
    series = run.tilt_series.get(name="TS_003")
    assert series.excluded_by is None, "other species take it along"
    assert [(row.species.label, row.decision) for row in series.left_out.all()] == [("alpha", decision)]
    assert Event.objects.filter(kind="series.exclude").count() == 1
    assert Event.objects.filter(kind="run.set_conf").count() == 1

    assert not protocol.suggest(gate, {})["series"]["TS_003"]["keep"], "it stays so when the gate is asked again"
    back = gate.suggestion["series"] | {"TS_003": {"keep": True, "note": ""}}
    protocol.persist(gate, answered(bench, run, phase, min_score=0.3, series=back))
    assert not series.left_out.exists()
    protocol.persist(gate, decision)
    assert not series.left_out.exists(), "an earlier decision does not undo a later one"


def test_alignment_is_held_against_the_residual_that_the_conf_allows(bench: Bench, run: Run) -> None:
    to_the_look(bench, run)
    phase = phase_of(run, "2")
    phase.files = {"look": {"tomogram": {"TS_001": "recon/TS_001.mrc"}, "residuals": {"": "alignment.tsv"}}}
    phase.save()
    gate = at(phase, "look", "alignment_qc", options={"max_residual": "NUM_SERIES"})
    plan = protocol_for(gate).plan(gate)
    assert plan is not None
    root = run.work_dir
    assert plan.commands[0][3:] == [
        "slices", f"{root}/recon/TS_001.mrc", "--residuals", f"{root}/alignment.tsv", "--max-residual-px", "3",
    ]  # fmt: skip


def test_picks_and_refinement_plan_what_is_there(bench: Bench, run: Run) -> None:
    to_the_look(bench, run)
    phase = phase_of(run, "3a", "alpha")
    found = {name: {"TS_001": f"{name}/TS_001", "TS_002": f"{name}/TS_002"} for name in ("tomogram", "picks")}
    phase.files = {"picks": found | {"truth": {"TS_001": "truth/TS_001"}}}
    phase.save()
    plan = protocol_for(at(phase, "picks", "picks_qc")).plan(at(phase, "picks", "picks_qc"))
    assert plan is not None
    [command] = plan.commands
    root = run.work_dir
    score = "--min-score 0.5"
    assert " ".join(command[3:]) == (
        f"several picks --tomogram {root}/tomogram/TS_001 --picks {root}/picks/TS_001"
        f" --truth {root}/truth/TS_001 {score}"
        f" --then picks --tomogram {root}/tomogram/TS_002 --picks {root}/picks/TS_002 {score}"
        f" --then histogram --picks {root}/picks/TS_001 {root}/picks/TS_002 --truth {root}/truth/TS_001 {score}"
    )
    with pytest.raises(BadInput, match="no file average/.* was found"):
        gate = at(phase_of(run, "3b", "alpha"), "average", "refine")
        protocol_for(gate).plan(gate)


def test_refinement_signs_off_a_resolution(bench: Bench, run: Run) -> None:
    gate = at(phase_of(run, "3b", "alpha"), "average", "refine", figures={"03_fsc": {"resolution_angstrom": 18.26}})
    protocol = protocol_for(gate)
    assert protocol.consequence(gate, {}) == "Signs off the map of alpha at 18.3 Å (FSC 0.143)."
    gate.figures = {}
    assert protocol.consequence(gate, {}) == "Signs off the map of alpha."
    assert protocol.form(gate, {}).is_valid()


def test_nothing_is_written_to_a_run_that_was_cancelled(bench: Bench, run: Run) -> None:
    gate = Gate.objects.get(key="settings")
    decision = answered(bench, run, phase_of(run, "1"), DIM=64)
    cancel_run(run=run, author=bench.operator)
    protocol_for(gate).persist(gate, decision)
    run.refresh_from_db()
    assert run.conf == {}
