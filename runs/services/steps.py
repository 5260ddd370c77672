"""A phase's scripts, run one after another as jobs."""

from typing import Any

from jobs.models import Job
from jobs.parse import parse_time_s
from jobs.services import Resources, plan_job, resources_for
from jobs.states import JobState
from record.errors import InvalidTransition
from runs.models import Phase, Run
from runs.pipeline.spec import PhaseSpec, spec_of
from runs.pipeline.store import folder_of
from runs.services.board import Board
from runs.services.exports import exported_values, species_for
from runs.services.halves import HALVES_TEXT, halves_environment
from runs.services.tools import python_on
from runs.services.values import pipeline_folder, species_file
from runs.states import PhaseState

ON_FINAL = "runs.step_ended"
PURPOSE = "phase"


def plan_step(board: Board, phase: Phase, step: int) -> Job:
    """Plan the job of a phase's script number `step` (from 0); in the caller's transaction.

    InvalidTransition for a replay, which never submits anything.
    """
    if board.run.replay:
        raise InvalidTransition(f"Run {board.run.name} is a replay: it starts nothing.")
    spec = board.spec_for(phase)
    name = spec.scripts[step]
    script = script_text(board.run, spec, name)
    return plan_job(
        target=board.run.target,
        name=f"{board.run.name}: {phase.named}, {name}"[:200],
        subject=phase.subject(),
        script=script,
        script_name=name.rsplit("/", 1)[-1],
        work_dir=board.run.work_dir,
        environment=environment_of(board.run, phase, spec, board.excluded_for(phase)),
        purpose=PURPOSE,
        step=step,
        attempt=phase.attempt,
        on_final=ON_FINAL,
        resources=step_resources(board.run, spec, script),
    )


def environment_of(run: Run, phase: Phase, spec: PhaseSpec, excluded: list[str]) -> dict[str, str]:
    """What a phase's scripts are told by their environment; `excluded` are names of tilt series.

    BadInput where a gate that gives one of the values has not been answered.
    """
    folder = pipeline_folder(run)
    environment = {
        "SKILL_DIR": folder,
        "WORK_DIR": run.work_dir,
        "EXCLUDED_SERIES": " ".join(excluded),
        "CONDUCTOR_PHASE": phase.key,
    }
    species = species_for(phase, spec)
    if species is not None:
        environment["SPECIES_CONF"] = f"{folder}/{species_file(spec_of(run.snapshot), species.label)}"
    environment["PYTHON"] = python_on(run.target)  # it has numpy; the target's environment lines may differ
    environment |= exported_values(phase, spec)
    return environment | (halves_environment(phase, spec) if spec.halves else {})


def plan_due_steps(board: Board) -> int:
    """Plan the next step of each running phase whose last one succeeded while the run was paused."""
    running = [phase for phase in board.phases if phase.state == PhaseState.RUNNING]
    if not running:
        return 0
    last: dict[Any, Job] = {}
    wanted = {phase.uuid: phase.attempt for phase in running}
    jobs = Job.objects.filter(subject_uuid__in=list(wanted), purpose=PURPOSE).order_by("id")
    for job in jobs.only("subject_uuid", "attempt", "step", "state", "final_handled"):
        if wanted[job.subject_uuid] == job.attempt:
            last[job.subject_uuid] = job
    due = [(phase, last[phase.uuid].step + 1) for phase in running if _is_over(last.get(phase.uuid))]
    for phase, step in due:
        plan_step(board, phase, step)
    return len(due)


def _is_over(job: Job | None) -> bool:
    return job is not None and job.state == JobState.SUCCEEDED and job.final_handled


def script_text(run: Run, spec: PhaseSpec, name: str) -> str:
    """The text of one of a phase's scripts, as it is in the run's snapshot, or our own that splits a list."""
    if spec.halves:
        return HALVES_TEXT
    path = folder_of(run.snapshot.digest) / "scripts" / name
    return path.read_text(encoding="utf-8", errors="replace")


def step_resources(run: Run, spec: PhaseSpec, script: str) -> Resources:
    """What a script may use; BadInput where it asks for more than the target gives."""
    return resources_for(run.target, script, time_limit_s=parse_time_s(spec.time_limit))
