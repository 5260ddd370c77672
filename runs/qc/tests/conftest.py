"""What the renderers' tests share: volumes with known content, and one way to call the command line."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REALDATA = Path(__file__).resolve().parents[4] / "shared" / "realdata" / "cryoet"


@pytest.fixture
def realdata() -> Path:
    if not REALDATA.is_dir():
        pytest.skip(f"real data are not there: {REALDATA}")
    return REALDATA


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


def particles(shape: tuple[int, int, int] = (32, 64, 64), *, noise: float = 0.5, seed: int = 0) -> np.ndarray:
    """Dark spheres in noise on a jittered grid, (z, y, x) float32."""
    generator = np.random.default_rng(seed)
    volume = generator.normal(0, noise, shape)
    z, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    for centre_z in range(8, shape[0] - 4, 16):
        for centre_y in range(8, shape[1] - 4, 16):
            for centre_x in range(8, shape[2] - 4, 16):
                dz, dy, dx = generator.uniform(-3, 3, 3)
                distance = (z - centre_z - dz) ** 2 + (y - centre_y - dy) ** 2 + (x - centre_x - dx) ** 2
                volume -= distance < 16
    return volume.astype(np.float32)
