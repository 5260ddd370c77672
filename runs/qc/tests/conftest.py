"""What the renderers' tests share: volumes with known content, and one way to call the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs.qc.tests.realdata import CRYOET


@pytest.fixture
def realdata() -> Path:
    if not CRYOET.is_dir():
        pytest.skip(f"real data are not there: {CRYOET}")
    return CRYOET


@pytest.fixture
def write_mrc(tmp_path: Path) -> Callable[..., Path]:
    import mrcfile

    def write(name: str, values: np.ndarray, apix: float = 10.0) -> Path:
        path = tmp_path / name
        with mrcfile.new(path, overwrite=True) as handle:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # NaN, written on purpose
                handle.set_data(values)
            handle.voxel_size = apix
        return path

    return write


@pytest.fixture
def render(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Call the command line: (exit code, index or None, stderr)."""
    from runs.qc.__main__ import main

    def call(*arguments: object, out: Path | None = None) -> tuple[int, dict[str, Any] | None, str]:
        folder = out or tmp_path / "out"
        code = main([*map(str, arguments), "--out", str(folder), "--json"])
        captured = capsys.readouterr()
        if code:
            return code, None, captured.err
        index = json.loads((folder / "index.json").read_text())
        assert json.loads(captured.out.splitlines()[-1]) == index["figures"]
        for entry in index["evidence"]:
            assert (folder / entry["file"]).stat().st_size > 0
        return code, index, captured.err

    return call
