"""A lab's cryo-ET folder on a real SLURM: from phase 1 to M, two species, one excluded tilt series."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conductor_site.tests.stage import ROOT
from jobs.tests.cluster.slurm import SlurmCluster
from runs.tests.opus_et.folder import script_names, write_data, write_folder, write_tools

pytestmark = [pytest.mark.slow, pytest.mark.demo]
LIMIT_S = 1200
JOBS = 8 + 2 * 15 + 7  # shared; in each lane 6a to 6g, 7, 8b, analysis, selection, halves, two averages, 8d; M
NOT_RUN = {"gen_training_mask.slurm"}  # of 8a, which is optional


def test_from_phase_1_to_m(plain_slurm: SlurmCluster, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "lab", write_data(tmp_path / "raw"), write_tools(tmp_path / "tools"))
    data = tmp_path / "data"
    wishes = {
        "folder": str(folder), "target": {"slots": 4},
        "cluster": {"conf_path": plain_slurm.env["SLURM_CONF"], "poll_floor_s": 1, "poll_ceiling_s": 1},
    }  # fmt: skip
    environment = os.environ | {
        "CONDUCTOR_DATA": str(data), "DJANGO_SETTINGS_MODULE": "conductor_site.settings", "PYTHONPATH": str(ROOT),
        "CONDUCTOR_PIPELINES": str(tmp_path / "lab"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "conductor_site.tests.cluster_opus_et", json.dumps(wishes)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    logs = "".join(path.read_text()[-6000:] for path in (data / "logs").glob("conduct*"))
    assert done.returncode == 0, done.stderr[-3000:] + logs

    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["states"], found["chain_faults"]) == (["done"], [])
    assert found["jobs"] == found["succeeded"] == found["native_ids"] == JOBS
    assert set(found["names"]) == {*script_names(), "split_halves.slurm"} - NOT_RUN
