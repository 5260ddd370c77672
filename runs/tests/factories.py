"""Small pipelines, runs of them, and a runner that executes their jobs at once."""

import os
import subprocess
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from gates.models import Gate
from gates.services import answer_gate
from gates.states import GateState
from gates.sweep import apply_decided, prepare_due
from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.services import handle_final
from jobs.states import JOB, JobState
from record.models import Door
from record.services import Author
from record.tests.factories import People
from runs.models import Phase, Pipeline, Preflight, Run
from runs.services.create import create_run
from runs.services.preflight import look_first
from runs.sweep import start_ready

HEAD = """#!/bin/bash
#SBATCH --time=00:05:00
#SBATCH --mem=100M
set -euo pipefail
SCRIPT_DIR="${SKILL_DIR:-$(cd "$(dirname "$0")/.." && pwd)}"
source "${SCRIPT_DIR}/pipeline.conf"
if [ -n "${SPECIES_CONF:-}" ]; then source "${SPECIES_CONF}"; fi
cd "$WORK_DIR"
excluded() { [[ " ${EXCLUDED_SERIES} " == *" $1 "* ]]; }
series() { for f in tomostar/*.tomostar; do n=$(basename "$f" .tomostar); excluded "$n" || echo "$n"; done; }
"""

IMPORT = """
mkdir -p tomostar
for i in $(seq 1 "$NUM_SERIES"); do echo x > "tomostar/TS_00$i.tomostar"; done
echo import >> trace
"""
RECON = """
mkdir -p recon
for s in $(series); do [ -s "recon/$s.txt" ] || { echo "$DIM" > "recon/$s.txt"; echo "recon $s" >> trace; }; done
"""
PICK = """
mkdir -p "picks/$TM_LABEL"
for s in $(series); do echo "$MIN_SCORE" > "picks/$TM_LABEL/$s.star"; done
echo "pick $TM_LABEL" >> trace
"""
AVERAGE = """
mkdir -p "average/$TM_LABEL"
cat picks/$TM_LABEL/*.star > "average/$TM_LABEL/map.txt"
echo "average $TM_LABEL" >> trace
"""

MANIFEST = """
phases:
  1:
    description: Import
    scripts: [import.slurm]
    required_vars: [WORK_DIR, NUM_SERIES]
    outputs: [tomostar/*.tomostar]
  2:
    description: Reconstruct
    scripts: [recon.slurm]
    required_vars: [DIM]
    outputs: [recon/TS_XXX.txt, "Updated settings (prose)"]
  3a:
    description: Pick
    requires_species: true
    scripts: [pick.slurm]
    required_vars: [TM_LABEL]
    outputs: ["picks/${TM_LABEL}/TS_XXX.star"]
  3b:
    description: Average
    requires_species: true
    scripts: [average.slurm]
    required_vars: [MIN_SCORE]
    outputs: ["average/${TM_LABEL}/map.txt"]
"""

OVERLAY = """
title: Small pipeline
gates:
  - key: look
    protocol: generic
    after: 2
    title: Look at it
    options: {fields: [{name: remark, kind: text, label: Remark, required: false}]}
phases:
  3b: {gathers: true}
conf:
  DIM: {label: Size, unit: px, kind: number, min: 8, max: 512, whole: true}
  MIN_SCORE: {label: Least score, kind: number, min: 0, max: 1, species: true}
presets:
  small: {conf: {DIM: 16}, species: {alpha: {MIN_SCORE: 0.4}}}
"""

FILES = {
    "pipeline.conf": "WORK_DIR=\nNUM_SERIES=3   # how many\nDIM=32\n",
    "species_alpha.conf": "TM_LABEL=alpha\nMIN_SCORE=0.5\n",
    "species_beta.conf": "TM_LABEL=beta\nMIN_SCORE=0.6\n",
    "scripts/manifest.yml": MANIFEST,
    "scripts/conductor.yml": OVERLAY,
    "scripts/import.slurm": HEAD + IMPORT,
    "scripts/recon.slurm": HEAD + RECON,
    "scripts/pick.slurm": HEAD + PICK,
    "scripts/average.slurm": HEAD + AVERAGE,
}


def write_pipeline(folder: Path, **files: str | None) -> Path:
    """Write the small pipeline into `folder`, with some of its files replaced (or left out: None)."""
    for name, text in (FILES | files).items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder


def write_two_phases(folder: Path) -> Path:
    """A pipeline of two shared phases with one generic gate between them."""
    manifest = MANIFEST[: MANIFEST.index("  3a:")]
    overlay = OVERLAY[: OVERLAY.index("phases:")]
    return write_pipeline(folder, **{"scripts/manifest.yml": manifest, "scripts/conductor.yml": overlay})


class Bench:
    """A lab's people, a target and a small pipeline, with a runner that drives runs of it."""

    def __init__(self, people: People, lab: Any, folder: Path) -> None:
        self.people, self.lab, self.folder = people, lab, folder
        self.operator = Author.person(people.operator, Door.WEB)
        self.reviewer = Author.person(people.reviewer, Door.WEB)
        self.target = Target.objects.create(
            lab=lab,
            name="here",
            host=this_host(),
            roots=[str(folder)],
            job_folder=str(folder / "jobs"),
            slots=4,
        )
        self.pipeline = self.add_pipeline(write_pipeline(folder / "pipeline"))

    def add_pipeline(self, folder: Path, name: str = "small") -> Pipeline:
        return Pipeline.objects.create(lab=self.lab, name=name, folder=str(folder))

    def begin(self, name: str = "first", **changes: Any) -> Run:
        values: dict[str, Any] = {
            "lab_id": self.lab.pk,
            "author": self.operator,
            "pipeline": self.pipeline,
            "target": self.target,
            "name": name,
            "work_dir": str(self.folder / "work" / name.replace(" ", "_")),
            "conf": {},
            "species": ["alpha", "beta"],
            "preset": "",
        }
        return create_run(**(values | changes))

    def drive(self, *, limit: int = 40) -> int:
        """Go on until nothing moves any more: start phases, run jobs, prepare and apply gates. Jobs that were run."""
        count = 0
        for _ in range(limit):
            moved = look_at_targets() + start_ready() + prepare_due() + apply_decided()
            ran = self.run_jobs()
            count += ran
            if not moved and not ran:
                return count
        raise AssertionError("the run does not come to rest")

    def run_jobs(self) -> int:
        """Execute what is planned, one after the other, and handle the ends; how many there were."""
        jobs = list(Job.objects.planned().filter(held=False))
        for job in jobs:
            self.execute(job)
            handle_final(job)
        left = [handle_final(job) for job in Job.objects.unhandled()]
        return len(jobs) + len(left)

    def execute(self, job: Job) -> None:
        """Run the job's script to its end and record how it ended; what follows is not handled yet."""
        begin_job(job)
        code = run_script(job)
        event = "succeed" if code == 0 else "fail"
        with transaction.atomic():
            JOB.apply(job, event, lab_id=job.lab_id, subject=job.subject(), exit_code=code, ended_at=timezone.now())

    def approve(self, key: str, verdict: str = "approve", reason: str = "", **answers: Any) -> Gate:
        """Answer the open gate called `key`, and have the answer applied."""
        return self.answer(Gate.objects.get(key=key, state=GateState.OPEN), verdict, reason, **answers)

    def answer(self, gate: Gate, verdict: str = "approve", reason: str = "", **answers: Any) -> Gate:
        """Answer this gate as the reviewer, and have the answer applied."""
        answer_gate(
            gate_id=gate.pk,
            author=self.reviewer,
            verdict=verdict,
            answers=answers,
            reason=reason,
            seen_digest=gate.digest,
        )
        apply_decided()
        gate.refresh_from_db()
        assert gate.state == GateState.APPLIED, gate.error
        return gate


def look_at_targets() -> int:
    """Make the looks at targets that runs wait for, as the task cluster would; how many there were."""
    waiting = list(Preflight.objects.due(timezone.now()).values_list("run_id", flat=True))
    return sum(look_first(run_id) for run_id in waiting)


def begin_job(job: Job) -> None:
    """Have the job running, as far as the database knows."""
    with transaction.atomic():
        for event in ("claim", "start"):
            JOB.apply(job, event, lab_id=job.lab_id, subject=job.subject())


def run_script(job: Job) -> int:
    """The exit code of the job's script, run as the local target would."""
    script = Path(job.work_dir) / f".{job.token}.sh"
    script.write_text(job.script)
    environment = {"PATH": os.environ["PATH"], "HOME": job.work_dir} | job.environment
    done = subprocess.run(["bash", str(script)], cwd=job.work_dir, env=environment, capture_output=True, text=True)
    for path, text in ((job.stdout_path, done.stdout), (job.stderr_path, done.stderr)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    return done.returncode


def phase_of(run: Run, key: str, species: str | None = None) -> Phase:
    return Phase.objects.select_related("run", "species").get(run=run, key=key, species__label=species)


def states(run: Run) -> dict[str, str]:
    """label -> state of the run's phases."""
    return {phase.label: phase.state for phase in Phase.objects.filter(run=run).select_related("species")}


def trace(run: Run) -> list[str]:
    """What the small pipeline's scripts did, in order."""
    path = Path(run.work_dir) / "trace"
    return path.read_text().splitlines() if path.exists() else []


__all__ = ["Bench", "JobState", "phase_of", "states", "trace", "write_pipeline", "write_two_phases"]
