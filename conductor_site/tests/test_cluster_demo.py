"""The demo pipeline on a real SLURM: on this machine with accounting, and over SSH without."""

import hashlib
import json
import os
import pwd
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor_site.tests.stage import ROOT
from jobs.tests.cluster.needs import refuse
from jobs.tests.cluster.slurm import SlurmCluster
from jobs.tests.cluster.sshd import SshServer

pytestmark = [pytest.mark.slow, pytest.mark.demo]
LIMIT_S = 420
PHASES = 15


def run_demo(data: Path, wishes: dict[str, Any], *, sockets: str = "") -> dict[str, Any]:
    """See the run through; what it came to."""
    environment = os.environ | {
        "CONDUCTOR_DATA": str(data), "DJANGO_SETTINGS_MODULE": "conductor_site.settings", "PYTHONPATH": str(ROOT),
        "CONDUCTOR_SSH_CONTROL": sockets,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "conductor_site.tests.cluster_demo", json.dumps(wishes)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    logs = "".join(path.read_text()[-6000:] for path in (data / "logs").glob("conduct*"))
    assert done.returncode == 0, done.stderr[-3000:] + logs
    return dict(json.loads(done.stdout.splitlines()[-1]))


def check(found: dict[str, Any]) -> None:
    assert (found["states"], found["chain_faults"]) == (["done"], [])
    assert found["jobs"] == found["succeeded"] == found["native_ids"]
    assert found["pictures"] > 0


def test_the_demo_on_a_cluster_of_this_machine(accounting_slurm: SlurmCluster, tmp_path: Path) -> None:
    cluster = {"conf_path": accounting_slurm.env["SLURM_CONF"], "poll_floor_s": 1, "poll_ceiling_s": 1}
    check(run_demo(tmp_path / "data", {"target": {"slots": 4}, "cluster": cluster}))


@pytest.fixture
def server(plain_slurm: SlurmCluster) -> Iterator[SshServer]:
    """The login node of the cluster."""
    server = SshServer(env=plain_slurm.env)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def test_the_demo_over_ssh(plain_slurm: SlurmCluster, server: SshServer, tmp_path: Path) -> None:
    python, lines = python_for(server.user)
    home = server.home
    target = {
        "roots": [f"{home}/work"], "job_folder": f"{home}/jobs", "environment_lines": lines, "slots": 4,
    }  # fmt: skip
    cluster = {
        "shell": "ssh", "ssh_host": "cluster", "ssh_config": str(server.config),
        "ssh_known_hosts": str(server.known_hosts), "conf_path": plain_slurm.env["SLURM_CONF"], "python": python,
        "poll_floor_s": 1, "poll_ceiling_s": 1,
    }  # fmt: skip

    found = run_demo(tmp_path / "data", {"target": target, "cluster": cluster}, sockets=f"{server.folder}/c")

    check(found)
    assert found["work_dir"].startswith(str(home))
    owner = pwd.getpwnam(server.user).pw_uid
    assert {path.stat().st_uid for path in Path(found["work_dir"]).iterdir()} == {owner}
    there = digests(Path(found["work_dir"])) | digests(home / "jobs")
    here = digests(tmp_path / "data")
    of_the_run = {here[digest] for digest in here.keys() & there.keys()}
    kept = {path.relative_to(tmp_path / "data").parts[0] for path in of_the_run}
    assert kept <= {"evidence", "snapshots"}, of_the_run  # of the run only evidence; a snapshot is of its pipeline
    assert not {path.suffix for path in here.values()} & {".mrc", ".star", ".tomostar"}
    assert found["evidence"] == sorted(path.name for path in here.values() if path.parent.parent.name == "evidence")


def digests(folder: Path) -> dict[str, Path]:
    """SHA-256 -> a file below that holds it; empty ones are left out."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]
    return {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in files}


def python_for(user: str) -> tuple[str, str]:
    """(a Python that the user may run and that has what the pipeline needs, environment lines for it)."""
    site = sysconfig.get_paths()["purelib"]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}"):
        lines = f'export PYTHON={python} PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{site}"'
        test = f"{lines}; exec {python} -c 'import numpy, scipy, mrcfile, starfile, matplotlib'"
        argv = ["bash", "-c", test] if os.geteuid() != 0 else ["runuser", "-u", user, "--", "bash", "-c", test]
        if subprocess.run(argv, cwd="/", capture_output=True, timeout=60).returncode == 0:
            return python, lines
    refuse(f"no {version} that {user} may run and that sees {site}")
    raise AssertionError
