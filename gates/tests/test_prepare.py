"""Evidence is made by a job, copied into the store, and opens the gate; what goes wrong is told at the gate.

The job's script is run as it is, by bash; what else runs jobs is tested where it lives.
"""

import json
import shlex
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.utils import timezone

from gates import store
from gates.index import read_index
from gates.models import Evidence, Gate
from gates.protocols import Preparation
from gates.services import reopen_gate, retry_preparing, withdraw_gate
from gates.sweep import prepare_due
from gates.tests.doubles import Threshold, answer, ask
from gates.tests.test_store import png
from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.services import Resources, handle_final
from record.errors import AdapterError, NotAllowed
from record.models import Door, Event, Lab
from record.services import Author
from record.tests.factories import People

RENDERER = """
mkdir -p "$3" && cp -r "$1/." "$3"
if [ "${1##*/}" = broken ]; then echo "TS_001.mrc is cut off: 12 bytes" >&2; exit 1; fi
"""


@pytest.fixture
def target(lab: Lab, tmp_path: Path) -> Target:
    return Target.objects.create(
        lab=lab, name="here", host=this_host(), roots=[str(tmp_path)], job_folder=str(tmp_path / "jobs")
    )


@pytest.fixture
def renderer(tmp_path: Path) -> Path:
    path = tmp_path / "renderer.sh"
    path.write_text(RENDERER)
    return path


@pytest.fixture
def preparing(threshold: Threshold, target: Target, renderer: Path, tmp_path: Path) -> Any:
    """Lets the protocol prepare with the renderer, once for each folder of ready-made output."""

    def prepare(*sources: Path) -> None:
        threshold.preparation = Preparation(
            commands=[["bash", str(renderer), str(source)] for source in sources],
            target=target,
            work_dir=str(tmp_path),
            out_dir=str(tmp_path / "evidence_out"),
            resources=Resources(60, 256),
        )

    return prepare


def output(folder: Path, *pieces: dict, files: dict[str, bytes] | None = None, **more: Any) -> Path:
    """A folder as a renderer would leave it."""
    folder.mkdir()
    for name, data in (files or {}).items():
        (folder / name).write_bytes(data)
    index = {"renderer": folder.name, "evidence": list(pieces), "figures": {}, "warnings": []} | more
    (folder / "index.json").write_text(index if isinstance(index, str) else json.dumps(index))
    return folder


def piece(name: str, file: str, kind: str = "image", **more: Any) -> dict[str, Any]:
    return {"name": name, "file": file, "kind": kind, **more}


def run(job: Job) -> Job:
    """Run the job's script to its end, and note that end, as the executor would."""
    for path in (job.stdout_path, job.stderr_path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(job.stdout_path, "wb") as out, open(job.stderr_path, "wb") as err:
        done = subprocess.run(["bash", "-c", job.script], stdout=out, stderr=err, cwd=job.work_dir, check=False)
    state = "failed" if done.returncode else "succeeded"
    ended = {"state": state, "ended_at": timezone.now(), "exit_code": done.returncode}
    Job.objects.filter(pk=job.pk).update(reason=f"exit {done.returncode}", **ended)
    job.refresh_from_db()
    return job


def finish(gate: Gate) -> Gate:
    handle_final(run(Job.objects.about(gate).first()))
    gate.refresh_from_db()
    return gate


def test_evidence_opens_the_gate(lab: Lab, preparing: Any, tmp_path: Path, people: People) -> None:
    slices = output(
        tmp_path / "slices",
        piece("TS_1/xy/001", "b.png", "stack", group="TS_1/xy", index=1, item="TS_1", caption="XY, 10.0 Å/px"),
        piece("TS_1/xy/000", "a.png", "stack", group="TS_1/xy", index=0, item="TS_1"),
        files={"a.png": png(), "b.png": png(3, 3)},
        figures={"series": {"TS_1": {"mean": 0.5}}},
        warnings=["TS_1 has no pixel size"],
    )
    curve = output(
        tmp_path / "fsc",
        piece("curve", "fsc.png", "curve", title="FSC", index=None, group=None, item=None),
        piece("table", "fsc.tsv", "table"),
        files={"fsc.png": png(), "fsc.tsv": b"shell\tfsc\n1\t0.9\n"},
    )
    preparing(slices, curve)

    gate = ask(lab, policy={"due_s": 600})
    job = Job.objects.about(gate).get()
    assert (gate.state, job.on_final, job.purpose, job.subject_uuid) == (
        "preparing", "gates.prepared", "evidence", gate.uuid,
    )  # fmt: skip
    assert gate.due_at is None, "the clock starts when the gate opens"
    finish(gate)

    assert (gate.state, gate.notes) == ("open", ["TS_1 has no pixel size"])
    assert gate.figures == {"01_bash": {"series": {"TS_1": {"mean": 0.5}}}, "02_bash": {}}
    assert gate.due_at == gate.opened_at + timedelta(seconds=600)
    assert list(gate.evidence.values_list("name", "kind", "group", "item")) == [
        ("01_bash/TS_1/xy/000", "stack", "01_bash/TS_1/xy", "TS_1"),
        ("01_bash/TS_1/xy/001", "stack", "01_bash/TS_1/xy", "TS_1"),
        ("02_bash/curve", "curve", "", ""),
        ("02_bash/table", "table", "", ""),
    ]
    shown = gate.evidence.get(name="01_bash/TS_1/xy/001")
    assert store.read_evidence(shown) == png(3, 3) and shown.caption == "XY, 10.0 Å/px"
    decision = answer(gate, people.reviewer).decision
    assert len(decision.evidence["items"]) == 4 and decision.evidence["digest"] == gate.digest


def test_the_end_of_the_job_is_heard_once(lab: Lab, preparing: Any, tmp_path: Path) -> None:
    preparing(output(tmp_path / "a", piece("a", "a.png"), files={"a.png": png()}))
    gate = finish(ask(lab))
    before = Event.objects.count()

    assert handle_final(Job.objects.get()) is False
    Job.objects.update(final_handled=False)
    handle_final(Job.objects.get())

    assert (gate.evidence.count(), Event.objects.count()) == (1, before)


def test_a_job_that_fails_is_told_with_the_end_of_its_log(
    lab: Lab, preparing: Any, tmp_path: Path, people: People
) -> None:
    broken = output(tmp_path / "broken", piece("a", "a.png"), files={"a.png": png()})
    preparing(broken)

    gate = finish(ask(lab))

    assert gate.state == "prepare_failed"
    assert "ended as failed: exit 1" in gate.error and "TS_001.mrc is cut off: 12 bytes" in gate.error
    assert not Evidence.objects.exists()

    with pytest.raises(NotAllowed):
        retry_preparing(gate_id=gate.pk, author=Author.person(people.viewer, Door.WEB))
    preparing(output(tmp_path / "mended", piece("a", "a.png"), files={"a.png": png()}))
    retry_preparing(gate_id=gate.pk, author=Author.person(people.operator, Door.WEB))
    assert list(Job.objects.order_by("id").values_list("attempt", flat=True)) == [1, 2]
    finish(gate)
    assert (gate.state, gate.error, gate.evidence.count()) == ("open", "", 1)


def test_the_first_command_that_fails_ends_the_script(lab: Lab, preparing: Any, tmp_path: Path) -> None:
    preparing(output(tmp_path / "broken"), output(tmp_path / "never"))

    finish(ask(lab))

    assert not list(tmp_path.glob("evidence_out/*/02*"))


def test_what_cannot_be_kept_is_left_out_with_a_note(lab: Lab, preparing: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    mixed = output(
        tmp_path / "mixed",
        piece("good", "a.png"),
        piece("svg", "a.svg"),
        piece("gone", "gone.png"),
        piece("outside", "../../../secret.txt", "log"),
        piece("absolute", "/etc/passwd", "log"),
        piece("cut", "cut.png"),
        piece("twice", "a.png"),
        piece("twice", "a.png"),
        files={"a.png": png(), "a.svg": b"<svg onload='alert(1)'/>", "cut.png": png()[:30]},
    )
    preparing(mixed)

    gate = finish(ask(lab))

    assert gate.state == "open"
    assert list(gate.evidence.values_list("name", flat=True)) == ["01_bash/good"]
    assert [note.split(" is left out: ")[0].split("/")[1] for note in gate.notes] == [
        "svg", "gone", "outside", "absolute", "cut", "twice", "twice",
    ]  # fmt: skip
    assert all(" is left out: " in note for note in gate.notes)


def test_limits(lab: Lab, preparing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_PIECES", 2)
    monkeypatch.setattr(store, "MAX_GATE_BYTES", 2 * len(png()) + 10)
    files = {"a.png": png(), "big.tsv": b"x" * 200}
    pieces = [piece("0big", "big.tsv", "table"), *[piece(f"{n}", "a.png") for n in range(1, 5)]]
    monkeypatch.setattr(store, "MAX_PIECE_BYTES", 150)
    preparing(output(tmp_path / "many", *pieces, files=files))

    gate = finish(ask(lab))

    assert gate.evidence.count() == 2 and len(gate.notes) == 3
    assert "more than is left" in gate.notes[0] and "2 pieces at most" in gate.notes[-1]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("{", "no JSON text"),
        ("[]", "not as a renderer writes it"),
        ('{"evidence": [{"name": "a"}]}', "'file' is a required property"),
        ('{"evidence": [{"name": "a", "file": "a", "kind": "movie"}]}', "movie"),
        ('{"evidence": [{"name": "a\\u0000", "file": "a", "kind": "log"}]}', "control characters"),
        ('{"evidence": [{"name": "\\ud800", "file": "a", "kind": "log"}]}', "control characters"),
        ('{"evidence": [], "figures": {"a": {"b": "\\u001b[31m"}}}', "control characters"),
        ('{"evidence": [], "figures": {"a\\u0007": 1}}', "control characters"),
        ('{"evidence": [], "warnings": ["C:\\\\u0000"]}', "no evidence was made"),
        ('{"evidence": []}', "no evidence was made"),
        ("[" * 100_000, "no JSON text"),
    ],
)
def test_an_index_that_cannot_be_used(lab: Lab, preparing: Any, tmp_path: Path, index: str, told: str) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "index.json").write_text(index)
    preparing(folder)

    gate = finish(ask(lab))

    assert gate.state == "prepare_failed" and told in gate.error


def test_figures_that_are_no_number_are_left_empty_and_said(lab: Lab, preparing: Any, tmp_path: Path) -> None:
    figures = {"resolution_angstrom": float("nan"), "b": [float("-inf"), 1.0]}
    preparing(output(tmp_path / "nan", piece("a", "a.png"), files={"a.png": png()}, figures=figures))

    gate = finish(ask(lab))

    assert gate.figures["01_bash"] == {"resolution_angstrom": None, "b": [None, 1.0]}
    assert "2 figures are not a number" in gate.notes[0]


def test_a_figure_beyond_all_numbers_is_left_empty_too() -> None:
    index = read_index(b'{"evidence": [], "figures": {"a": 1e999, "b": [-1e999, 1e9]}}', folder="01_bash")

    assert index.figures == {"a": None, "b": [None, 1e9]}
    assert "2 figures are not a number" in index.warnings[0]


def test_a_protocol_that_trips_over_the_figures(lab: Lab, preparing: Any, tmp_path: Path, threshold: Threshold) -> None:
    threshold.suggestion = KeyError("series")
    preparing(output(tmp_path / "a", piece("a", "a.png"), files={"a.png": png()}))

    gate = finish(ask(lab))

    assert gate.state == "prepare_failed" and "KeyError: 'series'" in gate.error
    assert not Evidence.objects.exists()


def test_a_folder_outside_the_targets_roots(lab: Lab, preparing: Any, threshold: Threshold, tmp_path: Path) -> None:
    preparing(tmp_path / "x")
    assert threshold.preparation
    threshold.preparation = replace(threshold.preparation, work_dir="/etc")

    gate = ask(lab)

    assert gate.state == "prepare_failed" and "/etc" in gate.error and not Job.objects.exists()


def test_a_full_disk_is_waited_for(lab: Lab, preparing: Any, tmp_path: Path) -> None:
    preparing(output(tmp_path / "a", piece("a", "a.png"), files={"a.png": png()}))
    gate = ask(lab)
    job = run(Job.objects.get())

    full = AdapterError("The evidence store can't keep a.png: No space left on device.", transient=True)
    with patch("gates.store.put", side_effect=full), pytest.raises(AdapterError):
        handle_final(job)
    gate.refresh_from_db()
    assert gate.state == "preparing"

    assert handle_final(Job.objects.get()) is True
    gate.refresh_from_db()
    assert gate.state == "open"


def test_a_withdrawn_gate_cancels_its_job_and_ignores_what_it_made(
    lab: Lab, preparing: Any, tmp_path: Path, people: People
) -> None:
    preparing(output(tmp_path / "a", piece("a", "a.png"), files={"a.png": png()}))
    gate = ask(lab)
    Job.objects.update(state="running", started_at=timezone.now())

    withdraw_gate(gate_id=gate.pk, author=Author.person(people.operator, Door.WEB), reason="Wrong data set.")
    assert Job.objects.get().cancel_requested_at

    finish(gate)
    assert gate.state == "withdrawn" and not Evidence.objects.exists()


def test_a_gate_without_a_job_gets_one_from_the_sweep(lab: Lab, preparing: Any, tmp_path: Path) -> None:
    preparing(output(tmp_path / "a", piece("a", "a.png"), files={"a.png": png()}))
    gate = ask(lab)
    assert prepare_due() == 0
    Job.objects.update(state="cancelled", ended_at=timezone.now(), final_handled=True)

    assert prepare_due() == 1 and prepare_due() == 0
    assert finish(gate).state == "open"


def test_a_new_iteration_makes_its_own_evidence(lab: Lab, preparing: Any, tmp_path: Path, people: People) -> None:
    preparing(output(tmp_path / "a", piece("a", "a.png"), files={"a.png": png()}))
    old = finish(ask(lab))
    withdraw_gate(gate_id=old.pk, author=Author.person(people.operator, Door.WEB), reason="Blurred.")

    fresh = reopen_gate(gate_id=old.pk, author=Author.person(people.reviewer, Door.WEB), reason="Sharper now.")

    assert fresh.state == "preparing" and finish(fresh).state == "open"
    assert (old.evidence.count(), fresh.evidence.count()) == (1, 1)


def test_the_script_quotes_what_it_is_given(target: Target) -> None:
    from gates.services.preparing import script_for

    hostile = "it's; rm -rf $HOME `x`"
    command = ["python", "-m", "runs.qc", "slices", hostile]
    script = script_for(Preparation([command], target, "/w", "/w/out", Resources(1, 1)), "/w/out/attempt_1")

    last = script.splitlines()[-1]
    assert shlex.split(last) == [*command, "--out", "/w/out/attempt_1/01_slices"]
    assert script.startswith("#!/usr/bin/env bash\nset -euo pipefail\n")
