"""A run works on the pipeline as it was when the run began."""

import os
from pathlib import Path
from typing import Any

import pytest

from record.errors import AdapterError, BadInput
from runs.models import Snapshot
from runs.pipeline import snapshot as module
from runs.pipeline.snapshot import folder_of, snapshot_pipeline
from runs.tests.factories import Bench, trace


def test_the_same_files_give_the_same_snapshot(bench: Bench) -> None:
    first, second = snapshot_pipeline(bench.pipeline), snapshot_pipeline(bench.pipeline)
    assert first == second
    assert Snapshot.objects.count() == 1
    kept = [path.name for path in folder_of(first.digest).parent.iterdir()]
    assert kept == [first.digest], "nothing half-made is left"


def test_a_change_gives_another_and_the_run_keeps_its_own(bench: Bench) -> None:
    run = bench.begin()
    (bench.folder / "pipeline/scripts/import.slurm").write_text("exit 1\n")

    assert snapshot_pipeline(bench.pipeline).digest != run.snapshot.digest
    bench.drive()
    assert trace(run)[0] == "import"


def test_links_are_refused(bench: Bench) -> None:
    os.symlink("/etc/passwd", bench.folder / "pipeline/secret")
    with pytest.raises(BadInput, match="secret of the pipeline is a link"):
        snapshot_pipeline(bench.pipeline)
    os.remove(bench.folder / "pipeline/secret")
    os.symlink("/etc", bench.folder / "pipeline/folder")
    with pytest.raises(BadInput, match="folder of the pipeline is a link"):
        snapshot_pipeline(bench.pipeline)


def test_huge_files_and_pipes_are_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with (bench.folder / "pipeline/data.mrc").open("wb") as handle:
        handle.truncate(module.MAX_FILE_BYTES + 1)
    with pytest.raises(BadInput, match="data.mrc of the pipeline is larger than 16 MiB"):
        snapshot_pipeline(bench.pipeline)
    (bench.folder / "pipeline/data.mrc").unlink()
    os.mkfifo(bench.folder / "pipeline/pipe")
    with pytest.raises(BadInput, match="pipe of the pipeline is not a plain file"):
        snapshot_pipeline(bench.pipeline)


def test_a_folder_outside_the_roots_is_refused(bench: Bench, tmp_path: Path) -> None:
    for folder, words in [("/etc", "lies outside"), ("relative", "absolute"), (str(tmp_path / "none"), "isn't there")]:
        bench.pipeline.folder = folder
        with pytest.raises(BadInput, match=words):
            snapshot_pipeline(bench.pipeline)


def test_snapshots_in_a_shared_folder_that_is_not_mounted(settings: Any, tmp_path: Path) -> None:
    settings.SHARED_DIR, settings.SNAPSHOT_ROOT = tmp_path / "shared", tmp_path / "shared" / "snapshots"
    with pytest.raises(AdapterError, match="can't see the folder that all hosts share"):
        folder_of("0" * 64)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "conductor-shared").touch()
    assert folder_of("0" * 64) == tmp_path / "shared" / "snapshots" / ("0" * 64)
