"""The lab's state file: taken up into a run, refused where it is torn, and written after each change."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from gates.models import Gate
from jobs.models import Job
from record.errors import AdapterError, BadInput, ConductorError, InvalidTransition, NotAllowed
from record.models import Decision, Door, Event
from record.services import Author
from runs.models import Phase, Run, TiltSeries
from runs.services.control import archive_run, retry_phase, run_again_from
from runs.services.export import due_exports, export_state, write_state_file
from runs.services.take_up import import_run_state
from runs.statefile.read import STATE_FILE, read_state
from runs.sweep import export_states
from runs.tests.factories import Bench, phase_of, states, trace

LAB = {
    "schema_version": 1,
    "project": {"work_dir": "", "pipeline_conf": "", "species": ["alpha", "beta"], "title": "HeLa lamellae"},
    "environment": {"discovered": True, "warp_fork_ok": True, "tools": {"AreTomo2": "/opt/AreTomo2"}},
    "cluster": {"partitions": ["gpu"]},
    "preflight": {"status": "done"},
    "phases": {
        "1": {"status": "done", "job_ids": [4711], "note": "twice"},
        "2": {"status": "checkpoint", "job_ids": ["4712"]},
        "3a": {"status": "pending", "job_ids": []},
    },
    "checkpoints": [{"gate": "setup", "params_set": {"DIM": 32}}],
    "artifacts": {"resolution_A": 11.5},
    "excluded_tomostar": ["TS_003.tomostar"],
    "a key of another tool": [1, {"kept": None}],
}


@pytest.fixture
def folder(bench: Bench) -> Path:
    """A folder in which the small pipeline has run to its end."""
    run = bench.begin("by hand")
    bench.drive()
    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    archive_run(run=run, author=bench.operator)
    return Path(run.work_dir)


def lab_file(folder: Path, **changes: Any) -> Path:
    state = json.loads(json.dumps(LAB | changes))
    state["project"]["work_dir"] = str(folder)
    (folder / STATE_FILE).write_text(json.dumps(state))
    return folder / STATE_FILE


def take_up(bench: Bench, path: Path, **changes: Any) -> Run:
    given: dict[str, Any] = {"author": bench.operator, "pipeline": bench.pipeline, "target": bench.target}
    return import_run_state(**(given | {"path": str(path), "name": "taken up"} | changes))


def written(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / STATE_FILE).read_text())
    return found


def test_it_goes_on_where_the_lab_stood(bench: Bench, folder: Path) -> None:
    for path in folder.glob("picks/alpha/*"):
        path.unlink()
    before, jobs = trace_of(folder), Job.objects.count()
    run = take_up(bench, lab_file(folder))
    bench.drive()
    assert states(run)["1"] == "done" and states(run)["2"] == "checkpoint" and states(run)["3a (alpha)"] == "pending"
    assert (trace_of(folder), Job.objects.count()) == (before, jobs)
    assert Gate.objects.get(root_uuid=run.uuid).state == "open"
    assert phase_of(run, "2").items_total == 2

    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done"
    assert trace_of(folder)[len(before) :].count("pick alpha") == 1
    assert "pick beta" not in trace_of(folder)[len(before) :]  # whole on disk: found, and not run again


def trace_of(folder: Path) -> list[str]:
    return (folder / "trace").read_text().splitlines()


def test_approvals_and_exclusions_are_imported_decisions(bench: Bench, folder: Path) -> None:
    approved = [{"gate": "setup", "params_set": {"DIM": 32}}, {"gate": "look", "by": "KM"}]
    phases = {"1": {"status": "done"}, "2": {"status": "done"}}
    run = take_up(bench, lab_file(folder, checkpoints=approved, phases=phases))
    bench.drive()
    assert states(run)["2"] == "done"
    imported = Decision.objects.filter(root_uuid=run.uuid, actor_kind="imported").order_by("number")
    assert [each.verdict for each in imported] == ["approve", "approve", "exclude"]
    assert imported[1].subject_uuid == phase_of(run, "2").uuid and imported[1].statement.answers["by"] == "KM"
    assert imported[0].subject_uuid == run.uuid and imported[0].actor is None
    assert TiltSeries.objects.get(run=run, name="TS_003").excluded_by == imported[2]
    assert Event.objects.get(kind="run.import_state").data["phases"]["1"] == "done"


def test_a_gate_without_an_entry_is_not_approved(bench: Bench, folder: Path) -> None:
    run = take_up(bench, lab_file(folder, phases={"1": {"status": "done"}, "2": {"status": "done"}}))
    bench.drive()
    assert states(run)["2"] == "checkpoint"


def test_what_was_called_done_and_is_missing_stops_it(bench: Bench, folder: Path) -> None:
    (folder / "recon/TS_001.txt").unlink()
    run = take_up(bench, lab_file(folder))
    bench.drive()
    phase = phase_of(run, "2")
    assert phase.state == "failed" and "(jobs 4712)" in phase.reason and "recon/TS_001.txt is missing" in phase.reason
    retry_phase(phase=phase, author=bench.operator)
    bench.drive()
    assert phase_of(run, "2").state == "checkpoint"
    assert trace_of(folder).count("recon TS_001") == 2


def test_failed_skipped_and_lanes(bench: Bench, folder: Path) -> None:
    lanes = {"alpha": {"status": "done", "job_ids": [7]}, "beta": {"status": "failed", "reason": "out of memory"}}
    phases = {
        "1": {"status": "done"},
        "2": {"status": "skipped"},
        "3a": {"status": "failed", "lanes": lanes},
        "9": {"status": "pending"},
    }
    run = take_up(bench, lab_file(folder, phases=phases))
    bench.drive()
    assert states(run) == {
        "1": "done", "2": "skipped", "3a (alpha)": "done", "3a (beta)": "failed",
        "3b (alpha)": "done", "3b (beta)": "pending",
    }  # fmt: skip
    assert "out of memory" in phase_of(run, "3a", "beta").reason


def test_doing_a_phase_again_forgets_what_lay_there(bench: Bench, folder: Path) -> None:
    phases = {key: {"status": "done"} for key in ("1", "2", "3a", "3b")}
    run = take_up(bench, lab_file(folder, phases=phases))
    bench.drive()
    run_again_from(phase=phase_of(run, "2"), author=bench.operator, reason="a new gain reference")
    assert not Phase.objects.filter(run=run, on_disk=True, species__isnull=False).exists()
    bench.drive()
    bench.approve("look")
    bench.drive()
    assert trace_of(folder).count("pick alpha") == 2


def test_a_replay_by_its_own_word(bench: Bench, folder: Path) -> None:
    run = take_up(bench, lab_file(folder, demo_replay=True))
    assert run.replay
    bench.drive()
    bench.approve("look")
    bench.drive()
    assert trace_of(folder).count("pick alpha") == 1


TORN = json.dumps(LAB)[:200]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TORN, "is torn or no JSON"),
        ("", "is torn or no JSON"),
        ("[]", "holds no object"),
        (json.dumps(LAB | {"schema_version": 2}), "schema_version 2; this Conductor reads 1"),
        (json.dumps({key: LAB[key] for key in ("project", "phases")}), "schema_version None"),
        (json.dumps(LAB | {"schema_version": True}), "schema_version True"),
        ('{"schema_version": 1, "schema_version": 1}', "stands twice"),
        ('{"schema_version": NaN}', "no JSON number"),
        (json.dumps(LAB | {"phases": {"1": {"status": "finished"}}}), "phases.1.status: 'finished' is not one of"),
        (json.dumps(LAB | {"checkpoints": [{}]}), "checkpoints.0: 'gate' is a required property"),
    ],
)
def test_what_is_refused_changes_nothing(bench: Bench, folder: Path, text: str, words: str) -> None:
    (folder / STATE_FILE).write_text(text.replace('"work_dir": ""', f'"work_dir": "{folder}"'))
    runs, events, files = Run.objects.count(), Event.objects.count(), sorted(folder.rglob("*"))
    with pytest.raises(BadInput, match=words):
        take_up(bench, folder / STATE_FILE)
    assert (Run.objects.count(), Event.objects.count(), sorted(folder.rglob("*"))) == (runs, events, files)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"phases": {"99": {"status": "done"}}}, "no phase 99; it has: 1, 2, 3a, 3b"),
        ({"project": {"species": ["gamma"]}}, "no species 'gamma'"),
        ({"checkpoints": [{"gate": "look", "species": "gamma"}]}, "names no species gamma, but speaks of it"),
        ({"project": {"species": [], "pipeline_conf": "/nowhere/pipeline.conf"}}, "is not there"),
    ],
)
def test_what_the_pipeline_cannot_place(bench: Bench, folder: Path, changes: dict[str, Any], words: str) -> None:
    runs = Run.objects.count()
    with pytest.raises(ConductorError, match=words):
        take_up(bench, lab_file(folder, **changes))
    assert Run.objects.count() == runs


def test_a_file_that_is_not_utf8_or_not_there(bench: Bench, folder: Path) -> None:
    (folder / STATE_FILE).write_bytes(b'{"\xff')
    with pytest.raises(BadInput, match="not UTF-8"):
        take_up(bench, folder / STATE_FILE)
    with pytest.raises(AdapterError, match="is not there"):
        take_up(bench, folder / "nothing.json")


def test_only_operators_take_up_runs(bench: Bench, folder: Path) -> None:
    with pytest.raises(NotAllowed):
        take_up(bench, lab_file(folder), author=Author.person(bench.people.reviewer, Door.CLI))


def test_values_of_the_labs_own_conf_are_the_runs(bench: Bench, folder: Path) -> None:
    (folder / "pipeline.conf").write_text("WORK_DIR=/elsewhere\nDIM=64  # finer\nOF_THE_LAB=1\n")
    (folder / "species_alpha.conf").write_text("TM_LABEL=alpha\nMIN_SCORE=0.25\n")
    project = LAB["project"] | {"pipeline_conf": "pipeline.conf"}  # type: ignore[operator]
    run = take_up(bench, lab_file(folder, project=project))
    assert run.conf == {"DIM": "64"}
    assert run.species.get(label="alpha").conf == {"MIN_SCORE": "0.25"} and run.species.get(label="beta").conf == {}


def test_the_command(bench: Bench, folder: Path) -> None:
    path = str(lab_file(folder))
    given = {"pipeline": "small", "target": "here", "user": "operator", "stdout": StringIO()}
    with pytest.raises(CommandError, match="There is no target nowhere"):
        call_command("import_run_state", path, **(given | {"target": "nowhere"}))
    with pytest.raises(CommandError, match="is not there"):
        call_command("import_run_state", f"{path}.old", **given)
    call_command("import_run_state", path, replay=True, **given)
    assert "The replay by_hand (key" in given["stdout"].getvalue()  # type: ignore[attr-defined]
    with pytest.raises(CommandError, match="belongs to run by_hand"):
        call_command("import_run_state", path, name="twice", **given)


def test_it_is_written_after_each_change_and_keeps_what_others_know(bench: Bench, folder: Path) -> None:
    run = take_up(bench, lab_file(folder))
    bench.drive()
    assert export_states() == 1
    state = written(folder)
    assert state["a key of another tool"] == [1, {"kept": None}] and state["artifacts"] == {"resolution_A": 11.5}
    assert state["phases"]["1"] == {"status": "done", "job_ids": ["4711"], "note": "twice"}
    assert state["phases"]["2"]["status"] == "checkpoint"
    assert [each["gate"] for each in state["checkpoints"]] == ["setup"]
    assert state["excluded_tomostar"] == ["TS_003.tomostar"]
    assert (folder / STATE_FILE).read_text().startswith('{\n  "schema_version": 1,\n  "project"')
    assert list(state)[: len(LAB)] == list(LAB)
    assert export_states() == 0

    gate = bench.approve("look", remark="clear")
    bench.drive()
    assert export_states() == 1
    state = written(folder)
    (entry,) = [each for each in state["checkpoints"] if each["gate"] == "look"]
    assert entry["params_set"] == {"remark": "clear"} and entry["decision"] == str(gate.decision.uuid)  # type: ignore[union-attr]
    assert state["phases"]["3b"]["lanes"] == {
        "alpha": {"status": "done", "job_ids": []}, "beta": {"status": "done", "job_ids": []},
    }  # fmt: skip
    assert read_state((folder / STATE_FILE).read_bytes()).work_of("3b", "beta").status == "done"
    assert list(folder.glob(".*part*")) == []
    assert Run.objects.get(pk=run.pk).state == "done"


def test_the_lane_furthest_behind_and_an_approval_of_one_lane(bench: Bench) -> None:
    overlay = (bench.folder / "pipeline/scripts/conductor.yml").read_text()
    gate = "  - {key: picks, protocol: generic, after: 3a, title: Picks, options: {fields: []}}\n"
    (bench.folder / "pipeline/scripts/conductor.yml").write_text(overlay.replace("gates:\n", "gates:\n" + gate))
    run = bench.begin()
    write_state_file(run=run, author=bench.operator)
    bench.drive()
    bench.approve("look")
    bench.drive()
    first = Gate.objects.get(key="picks", subject_uuid=phase_of(run, "3a", "alpha").uuid)
    bench.answer(first)
    bench.drive()
    assert export_states() == 1
    folder = Path(run.work_dir)
    state = written(folder)
    assert state["phases"]["3a"]["status"] == "checkpoint"
    assert state["phases"]["3a"]["lanes"]["alpha"]["status"] == "done"
    assert [each["gate"] for each in state["checkpoints"]] == ["look"]
    assert [(each["gate"], each["species"]) for each in state["conductor"]["checkpoints"]] == [("picks", "alpha")]
    read = read_state((folder / STATE_FILE).read_bytes())
    assert read.is_approved({"picks"}, "alpha") and not read.is_approved({"picks"}, "beta")

    bench.answer(Gate.objects.get(key="picks", subject_uuid=phase_of(run, "3a", "beta").uuid))
    export_states()
    assert [each.get("species") for each in written(folder)["checkpoints"]] == [None, "alpha", "beta"]


def test_what_others_wrote_meanwhile_is_kept(bench: Bench, folder: Path) -> None:
    run = take_up(bench, lab_file(folder))
    bench.drive()
    export_states()
    theirs = written(folder) | {"new key": 5}
    (folder / STATE_FILE).write_text(json.dumps(theirs))
    bench.approve("look")
    export_states()
    assert written(folder)["new key"] == 5
    event = Event.objects.get(kind="run.keep_state_file")
    kept = folder / event.message.rpartition(" ")[2]
    assert json.loads(kept.read_text()) == theirs

    (folder / STATE_FILE).write_text("{ torn")
    bench.drive()
    while export_states():
        pass
    assert written(folder)["new key"] == 5
    assert Event.objects.filter(kind="run.keep_state_file", root_uuid=run.uuid).count() == 2


def test_a_folder_that_cannot_be_written_stops_nothing_else(bench: Bench, folder: Path) -> None:
    run = take_up(bench, lab_file(folder))
    (folder / STATE_FILE).unlink()
    (folder / STATE_FILE).mkdir()
    with pytest.raises(AdapterError):
        export_state(run.pk)
    assert due_exports() == [run.pk]
    (folder / STATE_FILE).rmdir()
    assert export_state(run.pk)
    assert due_exports() == []


def test_it_is_written_only_where_somebody_wants_it(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    assert export_states() == 0 and not (Path(run.work_dir) / STATE_FILE).exists()
    write_state_file(run=run, author=bench.operator)
    with pytest.raises(InvalidTransition, match="is written already"):
        write_state_file(run=run, author=bench.operator)
    assert export_states() == 1 and written(Path(run.work_dir))["phases"]["1"]["status"] == "done"
    write_state_file(run=run, author=bench.operator, on=False)
    assert export_states() == 0
    assert trace(run)[0] == "import"
