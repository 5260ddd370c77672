"""A gate of a replay is staged again, and the run put back to what it was."""

from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from record.access import Role
from record.errors import InvalidTransition, NotAllowed
from record.models import Decision, Door
from record.services import Author, strike_statement
from record.tests.factories import make_person
from runs.models import Phase, Run, Staging
from runs.services.control import archive_run, cancel_run, skip_phase
from runs.services.series import exclude_series
from runs.services.settings import set_conf
from runs.services.staging import restore_staging, stage_gates_again
from runs.tests.factories import Bench, phase_of, states


@pytest.fixture
def run(bench: Bench) -> Run:
    """A replay that went through to its end."""
    first = bench.begin("real")
    bench.drive()
    bench.approve("look")
    bench.drive()
    first.refresh_from_db()
    archive_run(run=first, author=bench.operator)
    run = bench.begin("again", work_dir=first.work_dir, replay=True)
    bench.drive()
    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done"
    return run


def picture(run: Run) -> dict[str, Any]:
    """What putting back has to give again."""
    run = Run.objects.get(pk=run.pk)
    kept = ("key", "state", "gates_passed", "gate_asked", "completion", "items_done", "outputs", "files", "stale_since")
    return {
        "state": run.state,
        "conf": run.conf,
        "species": [each.conf for each in run.species.all()],
        "excluded": [each.excluded_by_id for each in run.tilt_series.all()],
        "phases": list(run.phases.order_by("id").values(*kept)),
    }


def stage(bench: Bench, run: Run) -> Decision:
    return stage_gates_again(phase=phase_of(run, "2"), author=bench.operator, reason="for the visitors")


def test_the_gate_is_asked_again_and_what_follows_waits(bench: Bench, run: Run) -> None:
    files = sorted(Path(run.work_dir).rglob("*"))
    decision = stage(bench, run)
    bench.drive()
    gate = Gate.objects.get(root_uuid=run.uuid, state="open")
    assert (gate.key, gate.iteration) == ("look", 2)
    assert states(run)["2"] == "checkpoint"
    assert phase_of(run, "3a", "alpha").stale_by == decision
    assert sorted(Path(run.work_dir).rglob("*")) == files
    bench.approve("look", remark="as before")
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done"


@pytest.mark.parametrize("answered", ["not", "approve", "reject", "send_back"])
def test_put_back_it_is_what_it_was(bench: Bench, run: Run, answered: str) -> None:
    before = picture(run)
    stage(bench, run)
    bench.drive()
    set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="to show it")
    exclude_series(series=run.tilt_series.get(name="TS_002"), author=bench.reviewer, reason="to show it")
    if answered != "not":
        bench.approve("look", answered, "to show it")
        bench.drive()
    decision = restore_staging(run=run, author=bench.operator, reason="the visitors have gone")
    bench.drive()
    assert picture(run) == before
    assert Staging.objects.get().restored_by == decision
    assert not Gate.objects.filter(root_uuid=run.uuid, state="open").exists()
    verdicts = Decision.objects.filter(root_uuid=run.uuid).order_by("number").values_list("verdict", flat=True)
    assert verdicts[1] == "stage_again" and verdicts.last() == "restore"
    assert "set_conf" in verdicts


def test_one_at_a_time_and_only_once_back(bench: Bench, run: Run) -> None:
    with pytest.raises(InvalidTransition, match="there is nothing to put back"):
        restore_staging(run=run, author=bench.operator)
    stage(bench, run)
    bench.drive()
    bench.approve("look")
    bench.drive()
    with pytest.raises(InvalidTransition, match="staged again already"):
        stage(bench, run)
    restore_staging(run=run, author=bench.operator)
    with pytest.raises(InvalidTransition, match="there is nothing to put back"):
        restore_staging(run=run, author=bench.operator)
    stage(bench, run)
    assert Staging.objects.count() == 2


def test_what_cannot_be_staged(bench: Bench, run: Run) -> None:
    with pytest.raises(InvalidTransition, match="has passed no gate yet"):
        stage_gates_again(phase=phase_of(run, "1"), author=bench.operator)
    with pytest.raises(NotAllowed):
        stage_gates_again(phase=phase_of(run, "2"), author=Author.person(bench.people.reviewer, Door.WEB))
    real = bench.begin("for real")
    with pytest.raises(InvalidTransition, match="is no replay"):
        stage_gates_again(phase=phase_of(real, "2"), author=bench.operator)
    stage(bench, run)
    cancel_run(run=run, author=bench.operator)
    with pytest.raises(InvalidTransition, match="is cancelled"):
        restore_staging(run=run, author=bench.operator)


def test_a_struck_reason_is_gone_from_what_was_kept(bench: Bench, run: Run) -> None:
    skipped = bench.begin("skipped", work_dir=str(bench.folder / "pipeline"), replay=True)
    secret = skip_phase(phase=phase_of(skipped, "1"), author=bench.operator, reason="the password is hunter2")
    skip_phase(phase=phase_of(skipped, "2"), author=bench.operator, reason="made elsewhere")
    Phase.objects.filter(run=skipped, key="2").update(gates_passed=["look"])
    stage_gates_again(phase=phase_of(skipped, "2"), author=bench.operator)
    keeper = make_person("keeper", run.lab, Role.ADMINISTRATOR)
    strike_statement(decision=secret, author=Author.person(keeper, Door.CLI), reason="a password had been pasted")
    assert "hunter2" not in str(Staging.objects.get().before)
