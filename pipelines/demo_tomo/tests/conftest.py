"""The pipeline as its scripts see it: the package on the path, the tiny variant's values, a whole tiny run."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PIPELINE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PIPELINE))

SHARED = ("import_tiltseries", "align_tiltseries", "reconstruct")
OF_SPECIES = (
    "gen_template",
    "template_match",
    "pick_particles",
    "extract_subtomo",
    "average_halves",
    "map_back",
)


def set_values(path: Path, values: dict[str, str]) -> None:
    """Put values into a conf file in place of those that it has."""
    text = path.read_text(encoding="utf-8")
    for key, value in values.items():
        text, count = re.subn(rf"^{key}=\S*", lambda _, k=key, v=value: f"{k}={v}", text, flags=re.MULTILINE)
        assert count == 1, f"{path.name} has no {key}"
    path.write_text(text, encoding="utf-8")


def values_of(path: Path) -> dict[str, str]:
    """Read the plain KEY=VALUE lines of a conf file."""
    return dict(re.findall(r"^(\w+)=(\S*)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


@dataclass
class Lab:
    """A copy of the pipeline with its values, and the folder of its run."""

    skill: Path
    work: Path
    extra: dict[str, str] = field(default_factory=dict)

    def run(self, script: str, species: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "SKILL_DIR": str(self.skill), **self.extra}
        if species:
            environment["SPECIES_CONF"] = str(self.skill / f"species_{species}.conf")
        command = ["bash", str(self.skill / "scripts" / f"{script}.slurm")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    def must_run(self, script: str, species: str | None = None) -> str:
        done = self.run(script, species)
        assert done.returncode == 0, done.stderr
        return done.stdout


def make_lab(folder: Path, **values: str) -> Lab:
    """Return a lab with the tiny variant's values."""
    lab = Lab(folder / "skill", folder / "work")
    shutil.copytree(PIPELINE, lab.skill, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    lab.work.mkdir()
    for overlay in (PIPELINE / "tiny").glob("*.conf"):
        set_values(lab.skill / overlay.name, values_of(overlay))
    set_values(lab.skill / "pipeline.conf", {"WORK_DIR": str(lab.work), **values})
    return lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A whole tiny run, with the spoilt series excluded after the reconstruction."""
    lab = make_lab(tmp_path_factory.mktemp("run"))
    for script in SHARED:
        lab.must_run(script)
    lab.extra["EXCLUDED_SERIES"] = "TS_003"
    with ThreadPoolExecutor(2) as lanes:
        list(lanes.map(lambda species: [lab.must_run(script, species) for script in OF_SPECIES], ("alpha", "beta")))
    return lab


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline's own values in the environment, as the scripts export them."""
    for name in ("pipeline.conf", "tiny/pipeline.conf"):
        for key, value in values_of(PIPELINE / name).items():
            monkeypatch.setenv(key, value)
