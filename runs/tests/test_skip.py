"""Going on without a phase."""

import pytest

from gates.models import Gate
from record.access import Role
from record.errors import BadInput
from record.models import Event
from record.services import Author, strike_statement
from record.tests.factories import make_person
from runs.services.control import run_again_from, skip_phase
from runs.tests.factories import MANIFEST, Bench, phase_of, states, trace, write_pipeline


def test_a_phase_that_is_not_optional_needs_a_reason(bench: Bench) -> None:
    run = bench.begin()
    with pytest.raises(BadInput, match="not optional: say why"):
        skip_phase(phase=phase_of(run, "2"), author=bench.operator, reason="  ")
    assert states(run)["2"] == "pending"

    decision = skip_phase(phase=phase_of(run, "2"), author=bench.operator, reason="made elsewhere")
    assert states(run)["2"] == "skipped"
    assert (decision.verdict, decision.statement.reason) == ("skip", "made elsewhere")


def test_a_struck_reason_is_gone_from_the_phase_too(bench: Bench) -> None:
    run = bench.begin()
    decision = skip_phase(phase=phase_of(run, "2"), author=bench.operator, reason="the password is hunter2")
    assert "hunter2" in phase_of(run, "2").reason
    lab_admin = make_person("keeper", run.lab, Role.ADMINISTRATOR)
    strike_statement(decision=decision, author=Author.person(lab_admin, "cli"), reason="a password had been pasted")
    assert phase_of(run, "2").reason.endswith(": (struck)")
    assert not Event.objects.filter(message__contains="hunter2").exists()


def test_an_optional_one_needs_none(bench: Bench) -> None:
    manifest = MANIFEST.replace("description: Average", "description: Average\n    optional: true")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    run = bench.begin(optional=["3b"])
    for label in ("alpha", "beta"):
        skip_phase(phase=phase_of(run, "3b", label), author=bench.operator)
    bench.drive()
    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done"
    assert "average alpha" not in trace(run)


def test_skipping_at_a_gate_withdraws_it_and_work_goes_on(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    skip_phase(phase=phase_of(run, "2"), author=bench.operator, reason="nobody has time")
    assert Gate.objects.get().state == "withdrawn"
    assert states(run)["3a (alpha)"] == "ready"
    assert phase_of(run, "2").reason == "Skipped by operator: nobody has time"


def test_one_skipped_before_its_turn_lets_nothing_begin_early(bench: Bench) -> None:
    run = bench.begin()
    skip_phase(phase=phase_of(run, "2"), author=bench.operator, reason="nobody has time")
    assert states(run)["3a (alpha)"] == "pending", "phase 1, which 2 waits for, is not done"
    bench.drive()
    assert states(run)["3a (alpha)"] == "done"


def test_an_optional_one_that_is_not_wanted_is_skipped_and_can_be_run_later(bench: Bench) -> None:
    manifest = MANIFEST.replace("description: Average", "description: Average\n    optional: true")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    run = bench.begin()
    assert states(run)["3b (alpha)"] == "skipped"
    with pytest.raises(BadInput, match="'9' is no optional phase of this pipeline; there are: 3b"):
        bench.begin("other", optional=["9"])
    bench.drive()
    bench.approve("look")
    bench.drive()
    run_again_from(phase=phase_of(run, "3b", "alpha"), author=bench.operator)
    bench.drive()
    assert trace(run)[-1] == "average alpha" and states(run)["3b (beta)"] == "skipped"
