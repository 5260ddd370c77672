"""Settings that are changed later: what used them is marked, what comes after sees them."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from record.errors import BadInput, InvalidTransition, NotAllowed, StaleState
from record.models import Decision, Door, Event
from record.services import Author
from runs.models import Run
from runs.pipeline.spec import spec_of
from runs.services import launch
from runs.services.control import cancel_run, retry_phase
from runs.services.settings import revert_conf, set_conf
from runs.services.values import PIPELINE_FOLDER, resolved_values
from runs.tests.factories import MANIFEST, Bench, phase_of, states, write_pipeline


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


DERIVED = """WORK_DIR=
NUM_SERIES=3
DIM=32
ANGPIX=3.37
BINNING_FACTOR=4
OUTPUT_ANGPIX=4.2
ALIGN_ANGPIX=
if [ -z "$ALIGN_ANGPIX" ]; then ALIGN_ANGPIX=$(awk "BEGIN {printf \\"%.6f\\", $ANGPIX * $BINNING_FACTOR}"); fi
"""


def derived_bench(bench: Bench) -> Run:
    write_pipeline(bench.folder / "pipeline", **{"pipeline.conf": DERIVED})
    return bench.begin()


def test_what_cant_be_together_is_refused_at_its_field(bench: Bench) -> None:
    run = derived_bench(bench)
    with pytest.raises(BadInput) as caught:
        set_conf(run=run, values={"OUTPUT_ANGPIX": 3}, author=bench.operator, reason="")
    assert set(caught.value.extra["fields"]) == {"OUTPUT_ANGPIX"}
    with pytest.raises(BadInput, match="ALIGN_ANGPIX is computed from ANGPIX, which is empty"):
        set_conf(run=run, values={"ANGPIX": ""}, author=bench.operator, reason="")


def test_a_derived_value_follows_its_inputs_and_bash_sees_the_same(bench: Bench) -> None:
    run = derived_bench(bench)
    set_conf(run=run, values={"ANGPIX": "2", "OUTPUT_ANGPIX": "${ANGPIX}"}, author=bench.operator, reason="")
    bench.drive()
    run.refresh_from_db()
    expected = {"ALIGN_ANGPIX": "8.000000", "OUTPUT_ANGPIX": "2"}
    found = resolved_values(spec_of(run.snapshot), run, None)
    assert {name: found[name] for name in expected} == expected
    conf = Path(run.work_dir) / PIPELINE_FOLDER / "pipeline.conf"
    script = f'source {conf}; echo "$ALIGN_ANGPIX $OUTPUT_ANGPIX $WORK_DIR"'
    seen = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env={}).stdout
    assert seen == f"8.000000 2 {run.work_dir}\n"


def test_a_change_is_put_back_by_a_decision_of_its_own(bench: Bench) -> None:
    run = bench.begin()
    first = set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="larger")
    event = Event.objects.get(kind="run.set_conf", decision=first)
    back = revert_conf(run=run, event=event, author=bench.operator, reason="too large")
    run.refresh_from_db()
    assert run.conf["DIM"] == "32" and back.supersedes == first
    assert back.config_before == {"DIM": "64"} and back.config_after == {"DIM": "32"}


def test_what_was_changed_again_since_is_not_put_back(bench: Bench) -> None:
    run = bench.begin()
    first = set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="")
    set_conf(run=run, values={"DIM": 128}, author=bench.operator, reason="")
    event = Event.objects.get(kind="run.set_conf", decision=first)
    with pytest.raises(StaleState, match="DIM of run first changed again"):
        revert_conf(run=run, event=event, author=bench.operator, reason="")


def test_two_species_that_export_into_one_folder_are_refused_before_the_phase(bench: Bench) -> None:
    manifest = MANIFEST.replace("required_vars: [TM_LABEL]", "required_vars: [TM_LABEL, DATADIR]")
    species = {
        f"species_{each}.conf": f"TM_LABEL={each}\nMIN_SCORE=0.5\nDATADIR=subtomo\n" for each in ("alpha", "beta")
    }
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest}, **species)
    run = bench.begin()
    bench.drive()
    bench.approve("look")
    bench.drive()
    phase = phase_of(run, "3a", "alpha")
    assert phase.state == "failed" and "alpha and beta would export into the same folder" in phase.reason


def test_what_is_not_given_yet_stops_the_phase_but_no_other_setting(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"pipeline.conf": DERIVED.replace("ANGPIX=3.37", "ANGPIX=")})
    run = bench.begin()
    set_conf(run=run, values={"DIM": 64}, author=bench.operator, reason="")
    bench.drive()
    assert phase_of(run, "1").state == "failed"
    assert "pipeline.conf:8: ALIGN_ANGPIX is computed from ANGPIX, which is empty" in phase_of(run, "1").reason


def test_a_conf_that_was_changed_on_disk_is_not_overwritten(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    conf = Path(run.work_dir) / PIPELINE_FOLDER / "pipeline.conf"
    changed = conf.read_text().replace("DIM=32", "DIM=48")
    conf.write_text(changed)
    set_conf(run=run, values={"NUM_SERIES": 2}, author=bench.operator, reason="")
    bench.approve("look")
    bench.drive()
    phase = phase_of(run, "3a", "alpha")
    assert phase.state == "failed" and "-DIM=32\n+DIM=48" in phase.reason
    assert conf.read_text() == changed

    conf.write_text((Path(run.work_dir) / ".conductor/written/pipeline.conf").read_text())
    retry_phase(phase=phase, author=bench.operator)
    bench.drive()
    assert "NUM_SERIES=2 " in conf.read_text()
    assert phase_of(run, "3b", "alpha").state == "done"


def test_a_change_on_disk_that_the_settings_follow_is_taken(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    conf = Path(run.work_dir) / PIPELINE_FOLDER / "pipeline.conf"
    conf.write_text(conf.read_text().replace("DIM=32", "DIM=48"))
    set_conf(run=run, values={"DIM": 48}, author=bench.operator, reason="as on disk")
    bench.approve("look")
    bench.drive()
    assert phase_of(run, "3b", "alpha").state == "done"
