"""What is missing is said before a phase is started, not by its script."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from jobs.shells import LocalShell
from record.errors import AdapterError, BadInput
from runs import sweep
from runs.services import launch
from runs.services.control import retry_phase
from runs.services.settings import set_conf
from runs.sweep import start_ready
from runs.tests.factories import FILES, HEAD, IMPORT, MANIFEST, Bench, phase_of, write_pipeline


def test_a_required_value_that_is_empty(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"pipeline.conf": "WORK_DIR=\nNUM_SERIES=\nDIM=32\n"})
    run = bench.begin()
    bench.drive()

    phase = phase_of(run, "1")
    assert phase.state == "failed" and phase.attempt == 0
    assert phase.reason == "The check before the start found: NUM_SERIES has no value: set it in pipeline.conf."
    assert not Job.objects.exists()

    set_conf(run=run, values={"NUM_SERIES": 2}, author=bench.operator, reason="two were taken")
    retry_phase(phase=phase, author=bench.operator)
    bench.drive()
    assert phase_of(run, "2").state == "checkpoint"


def test_a_tool_that_is_not_there(bench: Bench) -> None:
    manifest = MANIFEST.replace("outputs: [tomostar", "required_tools: [bash, WarpTools]\n    outputs: [tomostar")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    run = bench.begin()
    bench.drive()
    assert "WarpTools is not found on target here" in phase_of(run, "1").reason

    (bench.folder / "bin").mkdir()
    (bench.folder / "bin/WarpTools").write_text("#!/bin/sh\n")
    (bench.folder / "bin/WarpTools").chmod(0o755)
    bench.target.environment_lines = f'export PATH="{bench.folder}/bin:$PATH"'
    bench.target.save()
    retry_phase(phase=phase_of(run, "1"), author=bench.operator)
    bench.drive()
    assert phase_of(run, "1").state == "done"


def test_a_tool_is_looked_for_where_the_job_would_look(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = MANIFEST.replace("outputs: [tomostar", "required_tools: [WarpTools]\n    outputs: [tomostar")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    (bench.folder / "warp").mkdir()
    (bench.folder / "warp/WarpTools").write_text("#!/bin/sh\n")
    (bench.folder / "warp/WarpTools").chmod(0o755)
    monkeypatch.setenv("WARP_DIR", str(bench.folder / "warp"))
    bench.target.environment_allow = ["WARP_DIR"]
    bench.target.environment_lines = 'if true; then\r\n  export PATH="$WARP_DIR:$PATH"\r\nfi\r\n'
    bench.target.save()
    run = bench.begin()
    bench.drive()
    assert phase_of(run, "1").state == "done", phase_of(run, "1").reason


def test_environment_lines_that_fail(bench: Bench) -> None:
    manifest = MANIFEST.replace("outputs: [tomostar", "required_tools: [bash]\n    outputs: [tomostar")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    bench.target.environment_lines = "set -e\nno_such_module load x"
    bench.target.save()
    run = bench.begin()
    bench.drive()
    assert "the environment lines of target here fail" in phase_of(run, "1").reason


def test_a_script_that_asks_for_more_than_there_is(bench: Bench) -> None:
    big = HEAD.replace("--mem=100M", "--mem=500G") + IMPORT
    write_pipeline(bench.folder / "pipeline", **{"scripts/import.slurm": big})
    run = bench.begin()
    bench.drive()
    assert phase_of(run, "1").state == "failed"
    assert "script import.slurm" in phase_of(run, "1").reason


def test_a_folder_that_was_taken_away(bench: Bench) -> None:
    run = bench.begin()
    bench.target.roots = [str(bench.folder / "elsewhere")]
    bench.target.save()
    start_ready()
    assert "lies outside" in phase_of(run, "1").reason


def test_the_runs_copy_of_the_pipeline_is_made_again_where_it_is_gone(bench: Bench) -> None:
    run = bench.begin()
    shutil.rmtree(Path(run.work_dir))
    bench.drive()
    assert phase_of(run, "1").state == "done"
    assert (
        FILES["scripts/import.slurm"] == (Path(run.work_dir) / ".conductor/pipeline/scripts/import.slurm").read_text()
    )


def test_a_full_disk_is_waited_out_in_words(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.begin(conf={"DIM": 16})
    other = bench.begin("second")

    def full(self: LocalShell, path: str, data: bytes) -> None:
        if path.startswith(run.work_dir):
            raise AdapterError(f"{path} can't be written: the disk is full.", transient=True)
        write(self, path, data)

    write = LocalShell.write
    with monkeypatch.context() as patch:
        patch.setattr(LocalShell, "write", full)
        (Path(run.work_dir) / ".conductor/pipeline.digest").unlink()
        assert start_ready() == 1, "the other run goes on"
        phase = phase_of(run, "1")
        assert phase.state == "ready" and "the disk is full. It is tried again." in phase.reason
        assert phase_of(other, "1").state == "running"

    monkeypatch.setattr(sweep._patience, "allows", lambda row: True)
    bench.drive()
    assert phase_of(run, "1").state == "done" and phase_of(run, "1").reason == ""


def test_what_cannot_be_planned_fails_the_phase_and_not_the_sweep(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise BadInput("The environment is too large.")

    run = bench.begin()
    monkeypatch.setattr(launch, "plan_step", refuse)
    start_ready()
    phase = phase_of(run, "1")
    assert (phase.state, phase.attempt) == ("failed", 0)
    assert phase.reason == "The check before the start found: The environment is too large."


def test_a_local_target_of_another_host_is_left_alone(bench: Bench) -> None:
    run = bench.begin()
    bench.target.host = "another-host"
    bench.target.save()
    assert start_ready() == 0 and phase_of(run, "1").state == "ready"
