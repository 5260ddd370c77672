"""Changes a run's settings after it began."""

from collections.abc import Mapping

from django.db import transaction

from record.access import Ability, require
from record.errors import BadInput, InvalidTransition, StaleState
from record.models import Decision, Event
from record.services import Author, Ruling, record_decision, record_event
from runs.models import Phase, Run, Species
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.services.asking import mark_stale
from runs.services.board import Board, lock_run, refuse_archived
from runs.services.conf_checks import refuse_impossible
from runs.services.conf_values import check_conf, check_species_conf
from runs.services.values import species_defaults
from runs.states import PhaseState, RunState


def set_conf(
    *,
    run: Run,
    values: Mapping[str, object],
    author: Author,
    reason: str,
    species: Species | None = None,
    decision: Decision | None = None,
    supersedes: Decision | None = None,
) -> Decision | None:
    """Give values of pipeline.conf (or of a species' conf) to a run; the decision, or None where nothing changes.

    Phases that have used one of them become stale, and so does what was done after them. Phases that start later see
    the new values; one that runs keeps those that it began with. Raises BadInput for values that can't be used.
    """
    with transaction.atomic():
        run = lock_run(run.pk)
        _check(run, author, decision)
        spec = spec_of(run.snapshot)
        species = Species.objects.get(pk=species.pk, run=run) if species else None
        before, defaults = (
            (species.conf, species_defaults(spec, species.label)) if species else (run.conf, spec.defaults)
        )
        checked = check_species_conf(spec, species.label, values) if species else check_conf(spec, values)
        now = {**defaults, **before}
        changed = {key: value for key, value in checked.items() if not _same(now.get(key, "").strip(), value)}
        if not changed or (decision is not None and _was_done(run, species, decision)):
            return None
        refuse_impossible(spec, run, species, before | changed, changed)
        old = {key: now.get(key, "") for key in changed}
        if decision is None:
            ruling = Ruling(
                "set_conf", reason=reason.strip(), config_before=old, config_after=changed, supersedes=supersedes
            )
            decision = record_decision(lab_id=run.lab_id, subject=run.subject(), author=author, ruling=ruling)
        _write(run, species, before | changed)
        _say(run, species, old, changed, author, decision)
        mark_stale(
            _used_by(Board.load(run), species, set(changed), decision),
            decision,
            f"{', '.join(sorted(changed))} changed since",
        )
    return decision


def revert_conf(*, run: Run, event: Event, author: Author, reason: str) -> Decision:
    """Put back what one change of the settings had changed, by a decision that supersedes its own.

    Raises StaleState where one of the values was changed again since: that would be lost.
    """
    if event.kind != "run.set_conf" or event.subject_uuid != run.uuid:
        raise BadInput(f"This is no change of the settings of run {run.name}.")
    with transaction.atomic():
        run = lock_run(run.pk)
        label = event.data.get("species")
        species = run.species.filter(label=label).first() if label else None
        if label and species is None:
            raise BadInput(f"Run {run.name} has no species {label} any more.")
        spec = spec_of(run.snapshot)
        now = species_defaults(spec, species.label) | species.conf if species else spec.defaults | run.conf
        if again := [key for key, value in event.data["after"].items() if not _same(now.get(key, ""), value)]:
            names = ", ".join(again)
            raise StaleState(f"{names} of run {run.name} changed again since: put the later change back first.")
        done = set_conf(
            run=run,
            species=species,
            values=event.data["before"],
            author=author,
            reason=reason or f"put back what decision {event.decision_id} changed",
            supersedes=event.decision,
        )
        if done is None:
            raise StaleState(f"Nothing of run {run.name} is different from what it was before that change.")
        return done


def phases_using(spec: PipelineSpec, names: set[str]) -> list[str]:
    """Keys of the phases whose scripts read one of these values, by the manifest."""
    return [phase.key for phase in spec.phases if names & {*phase.required_vars, *phase.optional_vars}]


def _check(run: Run, author: Author, decision: Decision | None) -> None:
    refuse_archived(run)
    if run.state == RunState.CANCELLED:
        raise InvalidTransition(f"Run {run.name} is cancelled: its settings can't be changed any more.")
    if decision is None and author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)


def _same(old: str, new: str) -> bool:
    """Equal as text, or as numbers (`10.0` and `10`)."""
    try:
        return old == new or float(old) == float(new)
    except ValueError:
        return False


def _was_done(run: Run, species: Species | None, decision: Decision) -> bool:
    """Whether this decision has had its effect here: it has it once, also where it is applied again."""
    done = Event.objects.filter(decision=decision, subject_uuid=run.uuid, kind="run.set_conf")
    return done.filter(data__species=species.label if species else None).exists()


def _write(run: Run, species: Species | None, conf: dict[str, str]) -> None:
    row: Run | Species = species or run
    row.conf = conf
    row.save(update_fields=["conf"])


def _say(
    run: Run, species: Species | None, old: dict[str, str], new: dict[str, str], author: Author, decision: Decision
) -> None:
    whose = f" for {species.label}" if species else ""
    what = ", ".join(f"{key} {old[key] or '(empty)'} -> {value or '(empty)'}" for key, value in new.items())
    record_event(
        lab_id=run.lab_id,
        kind="run.set_conf",
        subject=run.subject(),
        message=f"{run.name}{whose}: {what}, by {author.name}",
        data={"before": old, "after": new, "species": species.label if species else None},
        decision=decision,
    )


def _used_by(board: Board, species: Species | None, names: set[str], decision: Decision) -> list[Phase]:
    """Phases that have begun with the old values, and done ones after them.

    The phase at whose gate the value was decided is left out: its results were judged together with the new value.
    """
    keys = phases_using(board.spec, names)
    used = [
        phase
        for phase in board.phases
        if phase.key in keys
        and (species is None or phase.species in (None, species))
        and phase.uuid != decision.subject_uuid
        and _has_used(phase)
    ]
    later = [each for phase in used for each in board.dependents(phase) if each.state == PhaseState.DONE]
    return list({phase.pk: phase for phase in [*used, *later]}.values())


def _has_used(phase: Phase) -> bool:
    at_work = (PhaseState.RUNNING, PhaseState.VERIFYING, PhaseState.CHECKPOINT, PhaseState.DONE)
    return phase.attempt > 0 and phase.state in at_work
