"""An excluded tilt series is left out of everything after, until a decision brings it back."""

from pathlib import Path

from jobs.models import Job
from record.models import Decision, Event
from runs.models import Run, TiltSeries
from runs.services.control import retry_phase, run_again_from
from runs.services.series import exclude_series, include_series
from runs.tests.factories import OVERLAY, Bench, phase_of, trace, write_pipeline


def begun(bench: Bench) -> Run:
    run = bench.begin()
    bench.drive()
    return run


def series_of(run: Run, name: str = "TS_002") -> TiltSeries:
    return TiltSeries.objects.get(run=run, name=name)


def test_it_is_left_out_everywhere_after(bench: Bench) -> None:
    run = begun(bench)
    decision = exclude_series(series=series_of(run), author=bench.reviewer, reason="ice")
    bench.approve("look")
    bench.drive()

    folder = Path(run.work_dir)
    assert (folder / "excluded_series.txt").read_text() == "TS_002\n"
    assert sorted(path.name for path in (folder / "picks/alpha").iterdir()) == ["TS_001.star", "TS_003.star"]
    assert {job.environment["EXCLUDED_SERIES"] for job in Job.objects.filter(name__contains="pick")} == {"TS_002"}
    pick = phase_of(run, "3a", "alpha")
    assert (pick.items_done, pick.items_total, pick.completion) == (2, 2, "done")
    assert (decision.verdict, decision.subject_label) == ("exclude", "tilt series TS_002")


def test_it_sticks_when_phases_are_run_again(bench: Bench) -> None:
    run = begun(bench)
    exclude_series(series=series_of(run), author=bench.reviewer, reason="ice")
    run_again_from(phase=phase_of(run, "1"), author=bench.operator)
    bench.drive()
    assert trace(run).count("recon TS_001") == 2 and trace(run).count("recon TS_002") == 1
    assert series_of(run).excluded_by is not None


def test_what_gathers_all_series_becomes_stale_and_what_does_not_stays(bench: Bench) -> None:
    run = begun(bench)
    bench.approve("look")
    bench.drive()
    decision = exclude_series(series=series_of(run), author=bench.reviewer, reason="drift")
    stale = {phase.label: phase.stale_by for phase in run.phases.exclude(stale_since=None).select_related("species")}
    assert stale == {"3b (alpha)": decision, "3b (beta)": decision}


def test_brought_back_what_ran_without_it_is_stale_and_catches_up(bench: Bench) -> None:
    run = begun(bench)
    exclude_series(series=series_of(run), author=bench.reviewer, reason="ice")
    bench.approve("look")
    bench.drive()
    include_series(series=series_of(run), author=bench.reviewer, reason="not so bad")
    stale = {phase.label for phase in run.phases.exclude(stale_since=None).select_related("species")}
    assert stale == {"3a (alpha)", "3a (beta)", "3b (alpha)", "3b (beta)"}

    run_again_from(phase=phase_of(run, "3a", "alpha"), author=bench.operator, keep_outputs=True)
    bench.drive()
    assert (Path(run.work_dir) / "average/alpha/map.txt").read_text().count("0.5") == 3


def test_twice_changes_nothing(bench: Bench) -> None:
    run = begun(bench)
    first = exclude_series(series=series_of(run), author=bench.reviewer, reason="ice")
    events = Event.objects.count()
    assert exclude_series(series=series_of(run), author=bench.reviewer, reason="ice again") == first
    assert Event.objects.count() == events and Decision.objects.count() == 1

    include_series(series=series_of(run), author=bench.reviewer, reason="fine")
    assert include_series(series=series_of(run), author=bench.reviewer, reason="fine") is None


def test_a_decision_that_is_applied_again_does_not_undo_a_later_one(bench: Bench) -> None:
    run = begun(bench)
    cause = exclude_series(series=series_of(run, "TS_001"), author=bench.reviewer, reason="ice")
    exclude_series(series=series_of(run), author=bench.reviewer, reason="ice", decision=cause)
    include_series(series=series_of(run), author=bench.reviewer, reason="it is fine")
    exclude_series(series=series_of(run), author=bench.reviewer, reason="ice", decision=cause)
    assert series_of(run).excluded_by is None


def test_with_all_excluded_the_next_phase_says_so(bench: Bench) -> None:
    run = begun(bench)
    for name in ("TS_001", "TS_002", "TS_003"):
        exclude_series(series=series_of(run, name), author=bench.reviewer, reason="ice")
    bench.approve("look")
    bench.drive()
    phase = phase_of(run, "3a", "alpha")
    assert phase.state == "failed" and "all are excluded" in phase.reason

    include_series(series=series_of(run), author=bench.reviewer, reason="one is needed")
    retry_phase(phase=phase, author=bench.operator)
    bench.drive()
    assert phase_of(run, "3b", "alpha").state == "done"


def test_for_one_species_alone_it_is_left_out_in_that_lane_only(bench: Bench) -> None:
    run = begun(bench)
    alpha = run.species.get(label="alpha")
    for _ in range(2):
        exclude_series(series=series_of(run), author=bench.reviewer, reason="few picks", species=alpha)
    bench.approve("look")
    bench.drive()

    folder = Path(run.work_dir)
    names = {label: sorted(path.stem for path in (folder / f"picks/{label}").iterdir()) for label in ("alpha", "beta")}
    assert names == {"alpha": ["TS_001", "TS_003"], "beta": ["TS_001", "TS_002", "TS_003"]}
    assert (folder / "excluded_series.txt").read_text() == ""
    done = {label: phase_of(run, "3a", label).items_total for label in ("alpha", "beta")}
    assert done == {"alpha": 2, "beta": 3}
    said = Event.objects.get(kind="series.exclude")
    assert said.message == "TS_002: excluded for alpha by reviewer: few picks" and Decision.objects.count() == 2

    beta = run.species.get(label="beta")
    exclude_series(series=series_of(run), author=bench.reviewer, reason="too", species=beta)
    include_series(series=series_of(run), author=bench.reviewer, reason="enough", species=alpha)
    stale = {phase.label for phase in run.phases.exclude(stale_since=None).select_related("species")}
    assert stale == {"3a (alpha)", "3b (alpha)", "3b (beta)"}


OVERLAY_WITH_PLACES = OVERLAY + (
    "excludes:\n  - {files: tomostar/TS_XXX.tomostar, to: tomostar/excluded}\n"
    '  - {files: "picks/${TM_LABEL}/TS_XXX.star", to: "picks/${TM_LABEL}/excluded"}\n'
)


def test_files_are_moved_aside_and_back_before_a_phase_starts(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"scripts/conductor.yml": OVERLAY_WITH_PLACES})
    run = begun(bench)
    folder = Path(run.work_dir)
    exclude_series(series=series_of(run), author=bench.reviewer, reason="ice")
    bench.approve("look")
    bench.drive()
    assert sorted(path.name for path in (folder / "tomostar").glob("*.tomostar")) == [
        "TS_001.tomostar",
        "TS_003.tomostar",
    ]
    assert (folder / "tomostar/excluded/TS_002.tomostar").read_text() == "x\n"
    moved = Event.objects.get(kind="series.move")
    assert moved.message.endswith("moved tomostar/TS_002.tomostar to tomostar/excluded, before it starts")

    alpha = run.species.get(label="alpha")
    exclude_series(series=series_of(run, "TS_001"), author=bench.reviewer, reason="few", species=alpha)
    include_series(series=series_of(run), author=bench.reviewer, reason="fine")
    run_again_from(phase=phase_of(run, "3b", "alpha"), author=bench.operator)
    bench.drive()
    assert (folder / "tomostar/TS_002.tomostar").exists() and not list((folder / "tomostar/excluded").iterdir())
    assert (folder / "picks/alpha/excluded/TS_001.star").exists() and (folder / "picks/beta/TS_001.star").exists()
    assert (folder / "average/alpha/map.txt").read_text() == "0.5\n", "TS_002 has not caught up, TS_001 is left out"
