"""A pipeline's folder that has changed since a run began: what differs, and going on with it, by a decision."""

from dataclasses import dataclass
from pathlib import Path

from django.db import transaction

from record.access import Ability, require
from record.errors import BadInput, InvalidTransition
from record.models import Decision
from record.services import Author, Ruling, record_decision, record_event
from runs.models import Run, Snapshot
from runs.pipeline.changes import FileChange, changed_files, same_shape, with_other_scripts
from runs.pipeline.snapshot import snapshot_pipeline
from runs.pipeline.spec import spec_of
from runs.pipeline.store import folder_of
from runs.services.asking import mark_stale
from runs.services.board import Board, lock_run, refuse_archived
from runs.services.conf_values import check_conf, check_species_conf
from runs.services.engine import advance
from runs.services.phases import rewire_phases
from runs.states import PhaseState, RunState

OPEN = (RunState.RUNNING, RunState.PAUSED)
_USED = (PhaseState.CHECKPOINT, PhaseState.DONE)


@dataclass(frozen=True)
class Offer:
    """The folder as it is now. `against`: why this run can't go on with it, in words; `phases` have other scripts."""

    snapshot: Snapshot
    files: list[FileChange]
    phases: list[str]
    against: str


def offered_upgrade(run: Run) -> Offer | None:
    """What the pipeline's folder has otherwise than the run; None where nothing has changed.

    Raises BadInput (or PipelineFaults, with lines) where the folder as it is now can't be used at all.
    """
    now = snapshot_pipeline(run.snapshot.pipeline)
    if now.digest == run.snapshot.digest:
        return None
    files = changed_files(Path(folder_of(run.snapshot.digest)), Path(folder_of(now.digest)))
    old, new = spec_of(run.snapshot), spec_of(now)
    return Offer(now, files, with_other_scripts(old, new, files), _against(run, now))


def upgrade_run(*, run: Run, author: Author, reason: str = "", digest: str = "") -> Decision:
    """Go on with the pipeline's folder as it is now; what was done with scripts that have changed becomes stale.

    The run's own values stay. With `digest`, the folder must still be what was shown under it. Raises BadInput where
    it has changed again, or where the run's phases or values are not those of the new version; InvalidTransition where
    nothing has changed, or while a phase is at work. Nothing is changed then.
    """
    if author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)
    offer = offered_upgrade(run)
    if offer is None:
        raise InvalidTransition(f"The folder of {run.snapshot.pipeline.name} is as it was when {run.name} began.")
    if digest and digest != offer.snapshot.digest:
        raise BadInput("The folder has changed again since its difference was shown: look at it anew.", code="changed")
    if offer.against:
        raise BadInput(offer.against)
    with transaction.atomic():
        run = lock_run(run.pk)
        board = Board.load(run)
        _refuse_while_at_work(board, offer)
        decision = _decide(run, offer, author, reason)
        Run.objects.filter(pk=run.pk).update(snapshot=offer.snapshot)
        run.snapshot = offer.snapshot
        rewire_phases(run, spec_of(offer.snapshot))
        used = [phase for phase in board.phases if phase.key in offer.phases and phase.state in _USED]
        mark_stale(used, decision, "its scripts have changed since, by an upgrade")
        advance(run)
    return decision


def _against(run: Run, now: Snapshot) -> str:
    if said := same_shape(spec_of(run.snapshot), spec_of(now)):
        return f"This run can't go on with the folder as it is now: {said}. Begin a new run."
    new = spec_of(now)
    try:
        check_conf(new, run.conf)
        for species in run.species.all():
            check_species_conf(new, species.label, species.conf)
    except BadInput as refusal:
        return f"This run's own values don't fit the folder as it is now. {refusal.message}"
    return ""


def _refuse_while_at_work(board: Board, offer: Offer) -> None:
    run = board.run
    refuse_archived(run)
    if run.state not in OPEN:
        raise InvalidTransition(f"Run {run.name} is {run.state}: it goes on with nothing any more.")
    if run.snapshot_id == offer.snapshot.pk:
        raise InvalidTransition(f"Run {run.name} has been upgraded meanwhile.")
    busy = [phase.named for phase in board.phases if phase.is_at_work or phase.state == PhaseState.VERIFYING]
    if busy:
        raise InvalidTransition(f"{busy[0]} is at work with the scripts as they are: pause the run, and wait for it.")


def _decide(run: Run, offer: Offer, author: Author, reason: str) -> Decision:
    names = [change.name for change in offer.files]
    answers = {"from": run.snapshot.digest, "to": offer.snapshot.digest, "files": names[:200]}
    ruling = Ruling("upgrade", reason=reason.strip(), answers=answers)
    decision = record_decision(lab_id=run.lab_id, subject=run.subject(), author=author, ruling=ruling)
    record_event(
        lab_id=run.lab_id,
        kind="run.upgrade",
        subject=run.subject(),
        message=f"{run.name}: goes on with {len(names)} changed files of its pipeline, by {author.name}",
        data=answers,
        decision=decision,
    )
    return decision
