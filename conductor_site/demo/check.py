"""The demo's unattended check: answers each gate through the HTTP API, then holds the results against the truth."""

import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conductor_site.demo.client import Client, NoAnswer
from conductor_site.demo.supervisor import Site
from jobs.models import Job
from runs.models import Run
from runs.services.values import PIPELINE_FOLDER

POLL_S = 0.5
START_PATIENCE_S = 60
STALL_PATIENCE_S = 300
MEASURE_TIMEOUT_S = 600
RECALL_MINIMUM = 0.8


@dataclass
class Report:
    """What the check found. `problems` is empty where everything holds."""

    phases_done: int = 0
    gates_decided: int = 0
    pictures: int = 0
    excluded: list[str] = field(default_factory=list)
    recall: dict[str, float] = field(default_factory=dict)
    resolution_angstrom: dict[str, float] = field(default_factory=dict)
    jobs_submitted: int = 0
    duplicates: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        """One JSON object on one line."""
        return json.dumps(asdict(self))


class GateKeeper:
    """Answers gates as a reviewer who follows the suggestions would, through the public API."""

    def __init__(self, client: Client, site: Site, say: Any) -> None:
        self.client = client
        self.site = site
        self.say = say
        self.decided = 0
        self.pictures = 0

    def sign_in(self, username: str, password: str) -> None:
        """Sign in once the web server answers; RuntimeError after a minute."""
        deadline = time.monotonic() + START_PATIENCE_S
        while True:
            self.site.keep_running()
            try:
                return self.client.sign_in(username, password)
            except NoAnswer as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the web server does not answer at {self.site.address}: {error}") from error
                time.sleep(0.2)

    def see_through(self, run_id: int) -> dict[str, Any]:
        """Answer gates until the run is done, and return it as the API shows it; RuntimeError where it can't go on."""
        last_change, seen = time.monotonic(), dict[str, Any]()
        while True:
            self.site.keep_running()
            try:
                run = self._look(run_id)
            except NoAnswer:  # a web server that is being started anew costs a moment
                run = seen
            if run.get("state") == "done":
                return run
            if run != seen:
                last_change, seen = time.monotonic(), run
            if time.monotonic() - last_change > STALL_PATIENCE_S:
                raise RuntimeError(f"nothing has moved for {STALL_PATIENCE_S} s")
            time.sleep(POLL_S)

    def _look(self, run_id: int) -> dict[str, Any]:
        """The run as the API shows it, after what could be decided was; RuntimeError where it can't go on."""
        run = dict(self.client.get(f"runs/{run_id}/"))
        if run["state"] != "done":
            self._raise_on_failure(run_id)
            for gate in self.client.get(f"gates/?state=open&run={run['uuid']}")["results"]:
                self._decide(gate["id"])
        return run

    def _decide(self, gate_id: int) -> None:
        gate = self.client.get(f"gates/{gate_id}/")
        body = {
            "verdict": "approve",
            "answers": {field["name"]: field["initial"] for field in gate["form"] if field["initial"] is not None},
            "reason": "as suggested",
            "digest": gate["digest"],
        }
        self.client.post(f"gates/{gate_id}/decide/", body)
        pictures = sum(piece["kind"] != "table" for piece in gate["evidence"])
        self.decided += 1
        self.pictures += pictures
        self.say(f"{gate['title']} ({gate['context']}): approved as suggested, on {pictures} pictures")

    def _raise_on_failure(self, run_id: int) -> None:
        failed = self.client.get(f"phases/?run={run_id}&state=failed")["results"]
        if failed:
            words = "; ".join(f"{phase['label']}: {phase['reason']}" for phase in failed)
            raise RuntimeError(f"the run can't go on: {words}")
        broken = self.client.get("gates/?state=prepare_failed")["results"]
        broken += self.client.get("gates/?state=apply_failed")["results"]
        if broken:
            words = "; ".join(f"{gate['title']}: {gate['error']}" for gate in broken)
            raise RuntimeError(f"a gate can't go on: {words}")


def measure(run: Run, *command: str) -> dict[str, Any]:
    """Figures computed by the pipeline's own code: `command` and its options, run on the run's folder."""
    argv = [sys.executable, "-m", "tomo", *command, "--work", run.work_dir, "--json"]
    done = subprocess.run(  # noqa: S603 - argv is ours
        argv,
        cwd=Path(run.work_dir) / PIPELINE_FOLDER,
        capture_output=True,
        text=True,
        timeout=MEASURE_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"tomo {command[0]} failed: {done.stderr.strip()[-500:]}")
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def duplicate_executions(run: Run) -> int:
    """How often work was done twice: by the marks that each start leaves on disk, and by rows for the same work."""
    jobs = Job.objects.filter(root_uuid=run.uuid).select_related("target")
    starts = [len(list((Path(job.target.job_folder) / job.token).glob("started.*"))) for job in jobs]
    same_work = Counter((job.subject_uuid, job.purpose, job.step, job.attempt) for job in jobs)
    return sum(max(count - 1, 0) for count in starts) + sum(count - 1 for count in same_work.values())


def judge(report: Report, *, spoilt: list[str], species: list[str], pixel_size_angstrom: float) -> list[str]:
    """What does not hold, in words. A resolution fits if it lies between Nyquist (two pixels) and eight pixels."""
    problems = []
    if report.excluded != spoilt:
        problems.append(f"excluded {report.excluded}, though the spoilt series is {spoilt}")
    for label in species:
        if not report.recall.get(label, 0) > RECALL_MINIMUM:
            problems.append(f"recall of {label} is {report.recall.get(label)}, not above {RECALL_MINIMUM}")
        resolution = report.resolution_angstrom.get(label)
        if resolution is None or not 2 * pixel_size_angstrom <= resolution <= 8 * pixel_size_angstrom:
            problems.append(f"resolution of {label} is {resolution} Å at {pixel_size_angstrom} Å/px")
    if report.duplicates:
        problems.append(f"{report.duplicates} duplicate executions")
    return problems
