"""Settings that are changed later: what used them is marked, what comes after sees them."""

from pathlib import Path
from typing import Any

import pytest

from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import Decision, Door, Event
from record.services import Author
from runs.models import Run
from runs.services import launch
from runs.services.control import cancel_run
from runs.services.settings import set_conf
from runs.tests.factories import Bench, phase_of, states


def stale(run: Run) -> set[str]:
    return {phase.label for phase in run.phases.exclude(stale_since=None).select_related("species")}


def test_before_it_is_used_nothing_is_stale(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    alpha = run.species.get(label="alpha")
    decision = set_conf(run=run, species=alpha, values={"MIN_SCORE": 0.25}, author=bench.operator, reason="low")
    assert stale(run) == set()
    assert (
        decision and decision.config_before == {"MIN_SCORE": "0.5"} and decision.config_after == {"MIN_SCORE": "0.25"}
    )

    bench.approve("look")
    bench.drive()
    assert (Path(run.work_dir) / "average/alpha/map.txt").read_text() == "0.25\n" * 3
    assert (Path(run.work_dir) / "average/beta/map.txt").read_text() == "0.6\n" * 3


def test_after_it_was_used_the_phase_and_what_follows_are_stale(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    bench.approve("look")
    bench.drive()
    set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="larger")
    assert stale(run) == {"2", "3a (alpha)", "3a (beta)", "3b (alpha)", "3b (beta)"}


def test_a_species_value_touches_its_lane_only(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    bench.approve("look")
    bench.drive()
    beta = run.species.get(label="beta")
    set_conf(run=run, species=beta, values={"MIN_SCORE": 0.1}, author=bench.operator, reason="")
    assert stale(run) == {"3b (beta)"}


def test_the_same_value_changes_nothing(bench: Bench) -> None:
    run = bench.begin()
    before = Event.objects.count()
    assert set_conf(run=run, values={"DIM": "32.0"}, author=bench.operator, reason="") is None
    assert Event.objects.count() == before and not Decision.objects.exists()


def test_bad_values_are_refused_together(bench: Bench) -> None:
    run = bench.begin()
    with pytest.raises(BadInput) as caught:
        set_conf(run=run, values={"DIM": 1, "NOPE": 2}, author=bench.operator, reason="")
    assert set(caught.value.extra["fields"]) == {"DIM", "NOPE"}
    run.refresh_from_db()
    assert run.conf == {}


def test_only_operators_and_only_live_runs(bench: Bench) -> None:
    run = bench.begin()
    viewer = Author.person(bench.people.viewer, Door.WEB)
    with pytest.raises(NotAllowed):
        set_conf(run=run, values={"DIM": 64}, author=viewer, reason="")
    cancel_run(run=run, author=bench.operator)
    with pytest.raises(InvalidTransition):
        set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="")


def test_a_change_between_writing_and_starting_is_not_lost(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.begin()
    write = launch.write_files

    def write_and_change(*args: Any) -> None:
        write(*args)
        monkeypatch.setattr(launch, "write_files", write)
        set_conf(run=run, values={"NUM_SERIES": 1}, author=bench.operator, reason="just now")

    monkeypatch.setattr(launch, "write_files", write_and_change)
    assert launch.start_phase(phase_of(run, "1").pk) is False
    bench.drive()
    assert states(run)["2"] == "checkpoint"
    assert phase_of(run, "2").items_total == 1
