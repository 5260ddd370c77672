"""What people can do to runs, phases and tilt series from a page: its name, what it does, when it is offered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from record.access import Ability
from record.services import Author
from runs.models import Phase, Run, Species, TiltSeries
from runs.services.control import (
    archive_run,
    cancel_run,
    pause_run,
    resume_run,
    retry_phase,
    run_again_from,
    skip_phase,
)
from runs.services.dropping import bring_species_back, drop_species
from runs.services.export import write_state_file
from runs.services.series import exclude_series, include_series
from runs.services.staging import open_staging, restore_staging, stage_gates_again
from runs.services.validate import validate_phase
from runs.states import PHASE, RUN, PhaseState, RunState


@dataclass(frozen=True)
class Action:
    """One thing that can be done. `fits` says whether it is offered; the service refuses in words where it doesn't."""

    verb: str
    label: str
    consequence: str
    do: Callable[..., Any]
    fits: Callable[[Any], bool]
    ability: Ability = Ability.OPERATE
    danger: bool = False


def _export(*, run: Run, author: Author, reason: str) -> None:
    write_state_file(run=run, author=author)


def _leave_alone(*, run: Run, author: Author, reason: str) -> None:
    write_state_file(run=run, author=author, on=False)


def _again(*, phase: Phase, author: Author, reason: str) -> Any:
    return run_again_from(phase=phase, author=author, reason=reason)


RUN_ACTIONS = {
    each.verb: each
    for each in [
        Action(
            "pause",
            "Pause",
            "Nothing more is started in this run. What is running goes on to its end.",
            pause_run,
            lambda run: RUN.allows(run.state, "pause"),
        ),
        Action(
            "resume",
            "Resume",
            "The run goes on where it stopped.",
            resume_run,
            lambda run: RUN.allows(run.state, "resume"),
        ),
        Action(
            "cancel",
            "Cancel the run",
            "The run ends for good: its jobs are cancelled and its open gates withdrawn. What lies on disk stays.",
            cancel_run,
            lambda run: RUN.allows(run.state, "cancel"),
            danger=True,
        ),
        Action(
            "export",
            "Write the state file",
            "From now on .opus_run_state.json in the work folder is written after each change, for the lab's other "
            "tools. What others wrote there is kept; the keys that only they know stay in it.",
            _export,
            lambda run: not run.exports_state and run.state in (RunState.RUNNING, RunState.PAUSED),
        ),
        Action(
            "leave-alone",
            "Leave the state file alone",
            "From now on .opus_run_state.json stays as it is now.",
            _leave_alone,
            lambda run: run.exports_state,
        ),
        Action(
            "restore",
            "Put the replay back",
            "Values, exclusions, phases and passed gates are again what they were before a gate was staged again. What "
            "was decided meanwhile stays in the record.",
            restore_staging,
            lambda run: run.replay and run.state != RunState.CANCELLED and open_staging(run) is not None,
        ),
        Action(
            "archive",
            "Archive",
            "The run leaves the lists and takes no more commands. It stays readable, and its folder may be used anew.",
            archive_run,
            lambda run: run.archived_at is None and run.state in (RunState.DONE, RunState.CANCELLED),
        ),
    ]
}

PHASE_ACTIONS = {
    each.verb: each
    for each in [
        Action(
            "check",
            "Check outputs",
            "The pipeline's validate.sh is asked, and the outputs are looked for. What is found becomes an event.",
            validate_phase,
            lambda phase: True,
        ),
        Action(
            "retry",
            "Try again",
            "A new attempt is started. What earlier attempts finished is kept and not done twice.",
            retry_phase,
            lambda phase: PHASE.allows(phase.state, "retry"),
        ),
        Action(
            "skip",
            "Skip",
            "The phase counts as passed without its outputs; what needs them may fail. "
            "A reason is owed unless it is optional.",
            skip_phase,
            lambda phase: PHASE.allows(phase.state, "skip"),
            danger=True,
        ),
        Action(
            "again",
            "Run again from here",
            "This phase is done anew. What depends on it and is done becomes stale and is done again after it.",
            _again,
            lambda phase: phase.state in (PhaseState.DONE, PhaseState.SKIPPED, PhaseState.FAILED),
            danger=True,
        ),
        Action(
            "stage",
            "Stage its gates again",
            "The gates of this phase are asked again with evidence made anew, and what comes after waits. The run can "
            "be put back afterwards to what it is now.",
            stage_gates_again,
            lambda phase: phase.run.replay and bool(phase.gates_passed),
        ),
    ]
}

SERIES_ACTIONS = {
    each.verb: each
    for each in [
        Action(
            "exclude",
            "Exclude",
            "The tilt series is left out of every later phase until a decision brings it back.",
            exclude_series,
            lambda series: series.excluded_by_id is None,
            ability=Ability.DECIDE,
        ),
        Action(
            "include",
            "Bring back",
            "The tilt series is taken along again; done phases that ran without it become stale.",
            include_series,
            lambda series: series.excluded_by_id is not None,
            ability=Ability.DECIDE,
        ),
    ]
}


SPECIES_ACTIONS = {
    each.verb: each
    for each in [
        Action(
            "drop",
            "Drop",
            "The run goes on without this species: its jobs are cancelled, its open gates withdrawn, and what its lane "
            "has not done is skipped. What joined the lanes with it becomes stale. A reason is owed.",
            drop_species,
            lambda species: species.dropped_by_id is None,
            ability=Ability.DECIDE,
            danger=True,
        ),
        Action(
            "bring-back",
            "Bring back",
            "The species' lane goes on where it stopped; what joined the lanes without it becomes stale.",
            bring_species_back,
            lambda species: species.dropped_by_id is not None,
            ability=Ability.DECIDE,
        ),
    ]
}


def offered(actions: dict[str, Action], row: Run | Phase | TiltSeries | Species, abilities: set[str]) -> list[Action]:
    """The actions that fit the row's state and that somebody with these abilities may take."""
    run = row if isinstance(row, Run) else row.run
    if run.archived_at is not None:
        return []
    return [each for each in actions.values() if each.ability in abilities and each.fits(row)]
