"""The same phases on a real, unaligned tilt series of a needle-shaped sample."""

import json
import subprocess
import sys

import numpy as np
import pytest

from .conftest import PIPELINE, SHARED, set_values

REAL = PIPELINE.parents[2] / "shared" / "realdata" / "haadf"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (REAL / "HAADF.mrc").is_file(), reason="the real tilt series isn't beside the project"),
]

VALUES = {
    "SOURCE": "mrc",
    "STACK_MRC": str(REAL / "HAADF.mrc"),
    "STACK_RAWTLT": str(REAL / "HAADF.rawtlt"),
    "PIXEL_SIZE_ANGSTROM": "33.6",
    "SPECIMEN": "needle",
    "TILT_AXIS_DEG": "90",
    "TILT_AXIS_SEARCH_DEG": "5",
    "MAX_SHIFT_PX": "40",
    "ALIGN_BIN": "2",
    "TOMO_DIM_Z": "160",
}


def test_aligned_projections_predict_those_left_out_far_better_than_unaligned(lab):
    set_values(lab.skill / "pipeline.conf", VALUES)
    said = "".join(lab.must_run(script) for script in SHARED)
    assert "read permissively" in said and "its header says 1 A/px" in said
    command = [sys.executable, "-m", "tomo", "crossvalidate", "--work", str(lab.work), "--series", "HAADF", "--json"]
    done = subprocess.run(command, env={"PYTHONPATH": str(PIPELINE)}, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["left_out"] == 15
    assert figures["aligned_mean"] > 0.98 > 0.93 > figures["unaligned_mean"]
    assert figures["aligned_lowest"] > figures["unaligned_lowest"] + 0.2
    assert np.isclose(figures["tilt_axis_deg"], 92.8, atol=0.5)
