"""A pipeline's folder that changes under a run, which stays with what it began with until somebody takes it over."""

from pathlib import Path

import pytest
from django.test import Client

from jobs.models import Job
from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import Decision, Door, Event
from record.services import Author
from runs.models import Run
from runs.pipeline.faults import PipelineFaults
from runs.services.upgrade import offered_upgrade, upgrade_run
from runs.sweep import start_ready
from runs.tests.factories import FILES, MANIFEST, OVERLAY, Bench, begin_job, phase_of, states, trace, write_pipeline

pytestmark = pytest.mark.django_db
SHARED_PICKS = (
    MANIFEST.replace("    requires_species: true\n    scripts: [pick", "    scripts: [pick")
    .replace("required_vars: [TM_LABEL]", "required_vars: []")
    .replace("${TM_LABEL}/TS_XXX.star", "TS_XXX.star")
)


@pytest.fixture
def run(bench: Bench) -> Run:
    """A run that stands at its gate after phase 2."""
    run = bench.begin()
    bench.drive()
    return run


def change(bench: Bench, **files: str) -> None:
    write_pipeline(bench.folder / "pipeline", **files)


def with_line(name: str, line: str) -> dict[str, str]:
    return {name: FILES[name] + line}


def test_nothing_is_offered_while_nothing_has_changed(bench: Bench, run: Run) -> None:
    assert offered_upgrade(run) is None
    with pytest.raises(InvalidTransition, match="as it was when first began"):
        upgrade_run(run=run, author=bench.operator)


def test_a_change_is_shown_and_changes_nothing_by_itself(bench: Bench, run: Run) -> None:
    change(bench, **with_line("scripts/pick.slurm", "echo again >> trace\n"))
    (bench.folder / "pipeline/scripts/average.slurm").chmod(0o755)
    offer = offered_upgrade(run)
    assert offer is not None and not offer.against
    assert [(each.name, each.how) for each in offer.files] == [
        ("scripts/average.slurm", "changed"), ("scripts/pick.slurm", "changed"),
    ]  # fmt: skip
    assert "+echo again >> trace" in offer.files[1].lines and offer.phases == ["3a", "3b"]
    bench.approve("look")
    bench.drive()
    assert "again" not in trace(run)


def test_it_goes_on_with_the_new_scripts(bench: Bench, run: Run) -> None:
    change(bench, **with_line("scripts/pick.slurm", "echo again >> trace\n"), **with_line("pipeline.conf", "NEW=1\n"))
    offer = offered_upgrade(run)
    assert offer is not None
    decision = upgrade_run(run=run, author=bench.operator, reason="mended", digest=offer.snapshot.digest)

    run.refresh_from_db()
    assert run.snapshot_id == offer.snapshot.pk
    assert (decision.verdict, decision.statement.reason) == ("upgrade", "mended")
    assert Event.objects.get(kind="run.upgrade").data["files"] == ["pipeline.conf", "scripts/pick.slurm"]
    bench.approve("look")
    bench.drive()
    assert trace(run).count("again") == 2
    conf = Path(run.work_dir, ".conductor/pipeline/pipeline.conf").read_text()
    assert "NEW=1" in conf and f"WORK_DIR={run.work_dir}" in conf.replace('"', "")


def test_what_was_done_with_other_scripts_becomes_stale(bench: Bench, run: Run) -> None:
    change(bench, **with_line("scripts/import.slurm", "true\n"))
    upgrade_run(run=run, author=bench.operator)
    assert phase_of(run, "1").stale_since is not None and phase_of(run, "2").stale_since is None


def test_order_and_needs_are_those_of_the_new_version(bench: Bench, run: Run) -> None:
    change(bench, **{"scripts/conductor.yml": OVERLAY + "needs: {3b: [2]}\n"})
    upgrade_run(run=run, author=bench.operator)
    assert [each.key for each in phase_of(run, "3b", "alpha").needs.all()] == ["2"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"scripts/manifest.yml": MANIFEST[: MANIFEST.index("  3b:")], "scripts/conductor.yml": OVERLAY.replace(
            "phases:\n  3b: {gathers: true}\n", "")}, "it has no phase 3b"),
        ({"scripts/manifest.yml": MANIFEST + "  4:\n    description: More\n    scripts: [import.slurm]\n"},
         "it has the new phase 4"),
        ({"scripts/manifest.yml": SHARED_PICKS},
         "another lane has phase 3a"),
    ],
)  # fmt: skip
def test_another_shape_is_refused(bench: Bench, run: Run, files: dict[str, str], words: str) -> None:
    change(bench, **files)
    offer = offered_upgrade(run)
    assert offer is not None and words in offer.against
    with pytest.raises(BadInput, match=words):
        upgrade_run(run=run, author=bench.operator)
    assert Run.objects.get().snapshot_id == run.snapshot_id


def test_values_that_do_not_fit_are_refused(bench: Bench) -> None:
    run = bench.begin(conf={"DIM": 300})
    change(bench, **{"scripts/conductor.yml": OVERLAY.replace("max: 512", "max: 100")})
    with pytest.raises(BadInput, match="own values don't fit.*at most 100 px"):
        upgrade_run(run=run, author=bench.operator)


def test_not_while_a_phase_is_at_work(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    begin_job(Job.objects.get())
    change(bench, **with_line("scripts/import.slurm", "true\n"))
    with pytest.raises(InvalidTransition, match="Import.*is at work"):
        upgrade_run(run=run, author=bench.operator)
    assert not Decision.objects.filter(verdict="upgrade").exists()


def test_a_folder_that_changed_again_is_to_be_looked_at_anew(bench: Bench, run: Run) -> None:
    change(bench, **with_line("scripts/pick.slurm", "true\n"))
    offer = offered_upgrade(run)
    assert offer is not None
    change(bench, **with_line("scripts/pick.slurm", "false\n"))
    with pytest.raises(BadInput, match="changed again"):
        upgrade_run(run=run, author=bench.operator, digest=offer.snapshot.digest)


def test_a_folder_that_is_broken_is_told_with_its_line(bench: Bench, run: Run) -> None:
    change(bench, **{"pipeline.conf": "WORK_DIR=$(rm -rf /)\n"})
    with pytest.raises(PipelineFaults, match=r"pipeline.conf:1: "):
        offered_upgrade(run)


def test_a_conf_that_was_changed_on_disk_is_not_overwritten_by_another_version(bench: Bench, run: Run) -> None:
    conf = Path(run.work_dir, ".conductor/pipeline/pipeline.conf")
    conf.write_text(conf.read_text() + "MINE=1\n")
    change(bench, **with_line("pipeline.conf", "NEW=1\n"))
    upgrade_run(run=run, author=bench.operator)
    bench.approve("look")
    bench.drive()
    assert "+MINE=1" in phase_of(run, "3a", "alpha").reason
    assert "MINE=1" in conf.read_text() and "NEW=1" not in conf.read_text()


def test_only_operators_and_only_runs_that_go_on(bench: Bench, run: Run) -> None:
    change(bench, **with_line("scripts/pick.slurm", "true\n"))
    with pytest.raises(NotAllowed):
        upgrade_run(run=run, author=Author.person(bench.people.viewer, Door.WEB))
    Run.objects.update(state="cancelled")
    with pytest.raises(InvalidTransition, match="cancelled"):
        upgrade_run(run=run, author=bench.operator)


def test_the_page_shows_the_difference_and_takes_it_over(bench: Bench, run: Run, client: Client) -> None:
    client.force_login(bench.people.operator)
    assert b"there is nothing to take over" in client.get(f"/runs/{run.pk}/upgrade/").content
    change(bench, **with_line("scripts/pick.slurm", "echo '<b>' >> trace\n"))
    page = client.get(f"/runs/{run.pk}/upgrade/")
    shown = page.content.decode()
    assert "<ins>+echo &#x27;&lt;b&gt;&#x27; &gt;&gt; trace</ins>" in shown and "phase 3a becomes stale" in shown
    answer = client.post(f"/runs/{run.pk}/upgrade/", {"digest": page.context["offer"].snapshot.digest, "reason": "x"})
    assert answer.status_code == 302 and Run.objects.get().snapshot_id != run.snapshot_id
    assert states(run)["2"] == "checkpoint"
