"""What the pages of a run and of a phase show, in a number of queries that does not grow with the phases."""

from dataclasses import dataclass
from typing import Any

from gates.models import Gate
from gates.states import ENDED, GateState
from jobs.models import Job
from jobs.reading import Piece, show_tail
from record.access import Ability, Actor, can
from record.kinds import KINDS
from record.models import Event
from runs.actions import PHASE_ACTIONS, RUN_ACTIONS, SERIES_ACTIONS, SPECIES_ACTIONS, offered
from runs.lanes import draw_bands, latest_iterations
from runs.models import Phase, Preflight, Run
from runs.pipeline.spec import spec_of
from runs.progress import Estimate, estimate
from runs.services.upgrade import OPEN
from runs.states import PASSED, PhaseState, RunState

RUNNING_SHOWN = 4
EVENTS_SHOWN = 14
# What the run's page tells; the whole mechanical log has a page of its own.
TOLD = [kind for kind, each in KINDS.items() if each.notable] + [
    "phase.start",
    "phase.finish",
    "phase.retry",
    "phase.reset",
    "phase.mark_stale",
]
TAIL_LINES = 12
PATHS_SHOWN = 200


@dataclass(frozen=True)
class Work:
    """A phase at work, with its estimate, its job if one has been planned, and the end of that job's output."""

    phase: Phase
    estimate: Estimate
    job: Job | None
    tail: Piece | None


def run_page(run: Run, user: Actor) -> dict[str, Any]:
    """The context of runs/detail.html."""
    phases = list(Phase.objects.filter(run=run).select_related("species").order_by("position", "id"))
    for phase in phases:
        phase.run = run
    gates = list(Gate.objects.filter(root_uuid=run.uuid).select_related("decision"))
    current = latest_iterations(gates).values()
    abilities = abilities_of(user, run.lab_id)
    series = list(
        run.tilt_series.select_related("excluded_by__statement").prefetch_related(
            "left_out__species", "left_out__decision"
        )
    )
    return {
        "run": run,
        "state": state_of(run, phases, current),
        "bands": draw_bands(spec_of(run.snapshot), phases, gates),
        "passed": sum(phase.state in PASSED for phase in phases),
        "total": len(phases),
        "work": work_of([phase for phase in phases if phase.is_at_work][:RUNNING_SHOWN]),
        "failed": [phase for phase in phases if phase.state == PhaseState.FAILED],
        "open_gates": sorted((g for g in current if g.state == GateState.OPEN), key=lambda gate: gate.opened_at),
        "events": list(
            Event.objects.filter(root_uuid=run.uuid, kind__in=TOLD)
            .select_related("decision__statement")
            .order_by("-id")[:EVENTS_SHOWN]
        ),
        "series": [(each, offered(SERIES_ACTIONS, each, abilities)) for each in _with_run(series, run)],
        "species": [(each, offered(SPECIES_ACTIONS, each, abilities)) for each in _with_run(_species(run), run)],
        "excluded": sum(each.excluded_by_id is not None for each in series),
        "actions": offered(RUN_ACTIONS, run, abilities),
        "looking": run.state == RunState.RUNNING and Preflight.objects.planned().filter(run=run).exists(),
        "may_add_species": may_add_species(run, abilities),
        "may_upgrade": run.state in OPEN and run.archived_at is None and Ability.OPERATE in abilities,
        "final": is_final(run, phases, current),
    }


def phase_page(phase: Phase, user: Actor) -> dict[str, Any]:
    """The context of runs/phase.html."""
    spec = spec_of(phase.run.snapshot).by_key.get(phase.key)
    jobs = list(Job.objects.filter(subject_uuid=phase.uuid).select_related("target").order_by("-attempt", "-id")[:60])
    live = next((job for job in jobs if not job.is_final), jobs[0] if jobs else None)
    return {
        "phase": phase,
        "run": phase.run,
        "spec": spec,
        "estimate": estimate(phase),
        "jobs": jobs,
        "job": live,
        "tail": show_tail(live, "out", lines=25) if live else None,
        "tail_err": show_tail(live, "err", lines=15) if live and live.is_final and live.state != "succeeded" else None,
        "gates": list(
            Gate.objects.filter(subject_uuid=phase.uuid).select_related("decision").order_by("key", "-iteration")
        ),
        "outputs": outputs_of(phase),
        "needs": list(phase.needs.select_related("species").order_by("position")),
        "events": list(Event.objects.about(phase).select_related("decision__statement")[:40]),
        "actions": offered(PHASE_ACTIONS, phase, abilities_of(user, phase.run.lab_id)),
        "final": phase.state not in (PhaseState.READY, PhaseState.RUNNING, PhaseState.VERIFYING, PhaseState.CHECKPOINT),
    }


def state_of(run: Run, phases: list[Phase], gates: Any) -> tuple[str, str]:
    """(state for its look, word) of the run as a whole: a person who is waited for is named before all else."""
    if run.state != RunState.RUNNING:
        return run.state, ""
    if any(gate.state == GateState.OPEN for gate in gates):
        return "open", "waiting for a person"
    if any(phase.state in (PhaseState.RUNNING, PhaseState.VERIFYING) for phase in phases):
        return "running", ""
    if any(phase.state == PhaseState.FAILED for phase in phases):
        return "failed", "a phase has failed"
    return "running", ""


def is_final(run: Run, phases: list[Phase], gates: Any) -> bool:
    """Whether nothing more will change by itself: the run has ended, and nothing of it is still being ended."""
    ended = run.state in (RunState.DONE, RunState.CANCELLED)
    busy = any(phase.state in (PhaseState.RUNNING, PhaseState.VERIFYING) for phase in phases)
    return ended and not busy and all(gate.state in ENDED for gate in gates)


def may_add_species(run: Run, abilities: set[str]) -> bool:
    """Whether this person is offered to add a species: its pipeline has lanes, and the run still takes commands."""
    takes = run.archived_at is None and run.state != RunState.CANCELLED and Ability.OPERATE in abilities
    return takes and any(phase.per_species for phase in spec_of(run.snapshot).phases)


def work_of(phases: list[Phase]) -> list[Work]:
    """The phases with their newest jobs, and the ends of those jobs' output."""
    jobs: dict[object, Job] = {}
    for job in Job.objects.filter(subject_uuid__in=[phase.uuid for phase in phases]).live().select_related("target"):
        jobs.setdefault(job.subject_uuid, job)
    return [
        Work(phase, estimate(phase), job, show_tail(job, "out", lines=TAIL_LINES) if job else None)
        for phase in phases
        for job in [jobs.get(phase.uuid)]
    ]


def outputs_of(phase: Phase) -> list[tuple[str, list[str], int]]:
    """(tilt series or empty, its first paths, how many more there are) of what was found when the phase was checked."""
    left = PATHS_SHOWN
    shown = []
    for name, paths in sorted(phase.outputs.items()):
        kept = paths[: max(left, 0)]
        left -= len(kept)
        shown.append((name, kept, len(paths) - len(kept)))
    return shown


def abilities_of(user: Actor, lab_id: int) -> set[str]:
    """What the person can do in the lab."""
    return {ability for ability in Ability if can(user, ability, lab_id)}


def _species(run: Run) -> list[Any]:
    return list(run.species.select_related("dropped_by"))


def _with_run(series: list[Any], run: Run) -> list[Any]:
    for each in series:
        each.run = run
    return series
