"""A phase whose outputs are all there before it begins is done without being run, and says why."""

from pathlib import Path

from gates.models import Gate
from jobs.models import Job
from record.models import Event
from runs.models import Run, TiltSeries
from runs.services.control import archive_run, cancel_run, run_again_from
from runs.tests.factories import MANIFEST, OVERLAY, Bench, phase_of, states, trace, write_pipeline

CHECKED = MANIFEST.replace(', "Updated settings (prose)"', "")


def adopt(bench: Bench, manifest: str = CHECKED, overlay: str = OVERLAY) -> Run:
    """A new run in the folder of one that went as far as its gate and was put away."""
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest, "scripts/conductor.yml": overlay})
    first = bench.begin()
    bench.drive()
    cancel_run(run=first, author=bench.operator)
    archive_run(run=first, author=bench.operator)
    (Path(first.work_dir) / "trace").unlink()
    Job.objects.filter(state="planned").delete()
    return bench.begin("second", work_dir=first.work_dir)


def test_it_goes_on_to_its_gate_with_an_event_that_says_why(bench: Bench) -> None:
    run = adopt(bench)
    bench.drive()

    assert states(run)["1"] == "done" and states(run)["2"] == "checkpoint"
    assert trace(run) == [] and not Job.objects.filter(root_uuid=run.uuid, purpose="phase").exists()
    assert Gate.objects.filter(root_uuid=run.uuid).get().state == "open"
    assert TiltSeries.objects.filter(run=run).count() == 3
    said = Event.objects.filter(kind="phase.fast_forward", subject_uuid=phase_of(run, "2").uuid).get().message
    assert said == "Reconstruct (phase 2): all of its outputs are there (3 of 3); nothing is run"
    bench.approve("look")
    bench.drive()
    assert sorted(trace(run)) == ["average alpha", "average beta", "pick alpha", "pick beta"]


def test_one_that_is_not_wholly_there_is_run(bench: Bench) -> None:
    run = adopt(bench)
    (Path(run.work_dir) / "recon/TS_002.txt").write_text("")
    bench.drive()
    assert trace(run) == ["recon TS_002"] and states(run)["2"] == "checkpoint"


def test_what_the_run_has_made_itself_on_the_way_to_something_else_is_no_proof(bench: Bench) -> None:
    run = adopt(bench)
    write = Path(run.work_dir) / "recon/TS_002.txt"
    write.write_text("32")
    bench.drive()
    assert states(run)["2"] == "checkpoint" and phase_of(run, "2").attempt == 1
    assert Job.objects.filter(root_uuid=run.uuid, purpose="phase").get().script_name == "recon.slurm"


def test_one_that_works_in_place_is_run(bench: Bench) -> None:
    overlay = OVERLAY.replace("  3b: {gathers: true}", "  3b: {gathers: true}\n  1: {in_place: true}")
    run = adopt(bench, overlay=overlay)
    bench.drive()
    assert trace(run) == ["import"]


def test_one_of_which_something_is_not_checked_is_run(bench: Bench) -> None:
    run = adopt(bench, MANIFEST)
    bench.drive()
    assert Job.objects.filter(root_uuid=run.uuid, purpose="phase").get().script_name == "recon.slurm"


def test_it_can_be_run_again_all_the_same(bench: Bench) -> None:
    run = adopt(bench)
    bench.drive()
    run_again_from(phase=phase_of(run, "1"), author=bench.operator, reason="not ours")
    bench.drive()
    assert trace(run) == ["import", "recon TS_001", "recon TS_002", "recon TS_003"]
