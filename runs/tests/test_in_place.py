"""A run that uses its lab's folder in place: no copy, its confs written there, and any change there stops it."""

from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from record.errors import BadInput
from runs.models import Run
from runs.services.control import archive_run, cancel_run, retry_phase
from runs.services.settings import set_conf
from runs.services.upgrade import upgrade_run
from runs.sweep import start_ready
from runs.tests.factories import FILES, MANIFEST, Bench, phase_of, states, trace, write_pipeline

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(bench: Bench) -> Path:
    return bench.folder / "pipeline"


def begin(bench: Bench, **changes: Any) -> Run:
    return bench.begin(**({"in_place": True} | changes))


def test_scripts_see_the_folder_itself_and_their_values_stand_there(bench: Bench, folder: Path) -> None:
    run = begin(bench, conf={"DIM": 64})
    bench.drive()
    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done" and "pick alpha" in trace(run)
    assert {job.environment["SKILL_DIR"] for job in Job.objects.all()} == {str(folder)}
    assert not Path(run.work_dir, ".conductor/pipeline").exists()
    text = (folder / "pipeline.conf").read_text()
    assert "DIM=64\n" in text and "# how many" in text and run.work_dir in text


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "scripts/recon.slurm").write_text("#!/bin/bash\n"), "Changed: scripts/recon.slurm"),
        (lambda folder: (folder / "scripts/pick.slurm").unlink(), "Not there any more: scripts/pick.slurm"),
    ],
)
def test_a_change_stops_before_the_next_phase_and_can_be_put_back(
    bench: Bench, folder: Path, spoil: Any, said: str
) -> None:
    run = begin(bench)
    start_ready()
    bench.run_jobs()
    spoil(folder)
    bench.drive()
    assert states(run)["2"] == "failed" and said in phase_of(run, "2").reason
    for name in ("scripts/recon.slurm", "scripts/pick.slurm"):
        (folder / name).write_text(FILES[name])
    retry_phase(phase=phase_of(run, "2"), author=bench.operator)
    bench.drive()
    assert states(run)["2"] == "checkpoint"


def test_a_change_between_two_scripts_of_a_phase_stops_it(bench: Bench, folder: Path) -> None:
    write_pipeline(
        folder, **{"scripts/manifest.yml": MANIFEST.replace("[import.slurm]", "[import.slurm, average.slurm]")}
    )
    run = begin(bench)
    start_ready()
    (folder / "scripts/average.slurm").write_text("#!/bin/bash\ntrue\n")
    bench.run_jobs()
    assert states(run)["1"] == "failed" and "Changed: scripts/average.slurm" in phase_of(run, "1").reason
    assert Job.objects.count() == 1


def test_a_conf_that_somebody_edits_is_not_overwritten(bench: Bench, folder: Path) -> None:
    run = begin(bench)
    conf = folder / "pipeline.conf"
    conf.write_text(conf.read_text().replace("DIM=32", "DIM=48"))
    bench.drive()
    assert "+DIM=48" in phase_of(run, "1").reason and "DIM=48" in conf.read_text()

    conf.write_bytes(Path(run.work_dir, ".conductor/written/pipeline.conf").read_bytes())
    set_conf(run=run, species=None, values={"DIM": "48"}, author=bench.operator, reason="as the lab wants it")
    retry_phase(phase=phase_of(run, "1"), author=bench.operator)
    bench.drive()
    assert states(run)["1"] == "done" and "DIM=48" in conf.read_text()


def test_it_is_upgraded_to_the_folder_as_it_is_now(bench: Bench, folder: Path) -> None:
    run = begin(bench)
    bench.drive()
    (folder / "scripts/pick.slurm").write_text(FILES["scripts/pick.slurm"] + "echo again >> trace\n")
    upgrade_run(run=run, author=bench.operator)
    bench.approve("look")
    bench.drive()
    assert trace(run).count("again") == 2


def test_two_runs_do_not_share_a_folder_in_place(bench: Bench, folder: Path) -> None:
    first = begin(bench)
    with pytest.raises(BadInput, match="Run first uses .*/pipeline in place already"):
        begin(bench, name="second")
    assert bench.begin("a copy").in_place is False
    cancel_run(run=first, author=bench.operator)
    archive_run(run=first, author=bench.operator)
    assert begin(bench, name="second").in_place


def test_a_folder_below_no_root_of_the_target_is_refused(bench: Bench, folder: Path) -> None:
    bench.target.roots = [str(bench.folder / "work")]
    bench.target.save()
    with pytest.raises(BadInput, match="pipeline"):
        begin(bench)
    assert not Run.objects.exists()
