"""How long work takes: a chain of phases, many jobs at once, and from an answer to what comes after it."""

import json
from functools import partial
from pathlib import Path
from statistics import median
from uuid import uuid4

from django.db import transaction
from django.db.models import Max, Min
from django.utils import timezone

from bench.figures import Figure
from bench.lab import NOTHING, SLOTS, Bench, until
from bench.site import Site
from bench.yardsticks import Yardsticks
from gates.models import Gate
from gates.states import GateState
from jobs.models import Job
from jobs.services import Resources, plan_job
from record.models import Event
from record.services import Subject
from runs.models import Run
from runs.states import RunState

PHASES = 50
CHAINS = 3
SPAWNS, COMMITS = 15, 4  # what a phase may cost, in fork + exec of `sh -c true` and in durable commits
JOBS = 200
ANSWERS = 25


def chain(bench: Bench) -> Figure:
    """A chain of phases that do nothing, from the commit that begins the run to the one that ends it."""
    pipeline = bench.pipeline("chain", phases=PHASES)
    per_phase_ms, yardsticks = [], Yardsticks()
    yardsticks.measure()
    for number in range(CHAINS):
        run = bench.begin(pipeline, f"chain-{number}")
        until(partial(_is_done, run), what=f"run {run.name} ends", every_s=0.1)
        per_phase_ms.append(_took_s(run) * 1000 / PHASES)
        yardsticks.measure()
    limit_ms = SPAWNS * yardsticks.spawn_ms + COMMITS * yardsticks.commit_ms
    limit = f"{SPAWNS} x {yardsticks.spawn_ms:.2f} + {COMMITS} x {yardsticks.commit_ms:.2f}"
    note = f"median of {CHAINS} chains; limit: {limit}"
    return Figure("chain of no-op phases, each", median(per_phase_ms), "ms", limit_ms, note)


def many_jobs(bench: Bench) -> Figure:
    """Jobs that do nothing, planned at once, until the last has ended."""
    with transaction.atomic():
        for number in range(JOBS):
            _plan_nothing(bench, number)
    began = timezone.now()
    ours = Job.objects.filter(subject_kind="bench")
    until(lambda: not ours.live().exists(), what="the jobs end", every_s=0.1)
    if ours.exclude(state="succeeded").exists():
        raise RuntimeError("not every job succeeded")
    last = ours.aggregate(at=Max("ended_at"))["at"]
    return Figure(f"{JOBS} no-op jobs, {SLOTS} slots", (last - began).total_seconds(), "s", 5.0)


def answer_to_next(bench: Bench, site: Site) -> Figure:
    """From sending an answer to the API until the script of the phase after the gate runs."""
    script = NOTHING + 'date +%s.%N > "$WORK_DIR/$CONDUCTOR_PHASE.began"\n'
    pipeline = bench.pipeline("gated", phases=2, gate_after=1, script=script)
    took_ms = [_answer(bench, site, bench.begin(pipeline, f"gated-{number}")) for number in range(ANSWERS)]
    return Figure("answer to a gate until the next phase", median(took_ms), "ms", 100.0, f"median of {ANSWERS}")


def wait_at_gates(bench: Bench, number: int) -> None:
    """Begin so many runs and wait until each waits at a gate."""
    pipeline = bench.pipeline("waiting", phases=2, gate_after=1)
    runs = [bench.begin(pipeline, f"waiting-{each}") for each in range(number)]
    waiting = Gate.objects.filter(state=GateState.OPEN, root_uuid__in=[run.uuid for run in runs])
    until(lambda: waiting.count() == number, what=f"{number} runs wait at gates", every_s=0.2)


def _is_done(run: Run) -> bool:
    return Run.objects.filter(pk=run.pk, state=RunState.DONE).exists()


def _took_s(run: Run) -> float:
    told = Event.objects.filter(root_uuid=run.uuid, kind__in=["run.create", "run.finish"])
    ends = told.aggregate(began=Min("at"), ended=Max("at"))
    return float((ends["ended"] - ends["began"]).total_seconds())


def _plan_nothing(bench: Bench, number: int) -> None:
    plan_job(
        target=bench.target,
        name=f"nothing {number}",
        subject=Subject("bench", uuid4(), f"nothing {number}"),
        script=NOTHING,
        script_name="nothing.sh",
        work_dir=str(bench.folder),
        environment={},
        purpose="work",
        step=0,
        attempt=1,
        on_final="",
        resources=Resources(60, 100),
    )


def _answer(bench: Bench, site: Site, run: Run) -> float:
    """Milliseconds from the answer to the next phase's script."""
    gates = Gate.objects.filter(root_uuid=run.uuid, state=GateState.OPEN)
    until(gates.exists, what=f"run {run.name} waits at its gate")
    gate = gates.get()
    body = json.dumps({"verdict": "approve", "digest": gate.digest}).encode()
    began = timezone.now()
    status, text = site.post(f"/api/v1/gates/{gate.pk}/decide/", body, {"Authorization": f"Token {bench.token}"})
    if status != 200:
        raise RuntimeError(f"the answer was refused: {status} {text.decode(errors='replace')[:300]}")
    until(partial(_is_done, run), what=f"run {run.name} ends")
    return (_noted(run) - began.timestamp()) * 1000


def _noted(run: Run) -> float:
    """Seconds since the epoch at which the script of the last phase noted its beginning."""
    return float(Path(run.work_dir, "p2.began").read_text())
