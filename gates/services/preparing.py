"""Evidence made by a job, and what becomes of the gate when the job ends."""

import shlex

from django.db import transaction

from gates.gathering import OUT_VARIABLE, Gathered, failure_text, gather_evidence
from gates.index import folder_name
from gates.models import Evidence, Gate
from gates.protocols import Preparation, protocol_for
from gates.quota import over_quota
from gates.services.locking import lock_gate, lock_gate_of
from gates.services.opening import fail_preparing, open_gate
from gates.services.people import require_any
from gates.states import GATE, GateState
from jobs.models import Job
from jobs.querysets import JobQuerySet
from jobs.services import plan_job, stop_job
from jobs.shells import shell_for
from jobs.states import JobState
from record.access import Ability
from record.errors import AdapterError, ConductorError
from record.logkeys import about
from record.services import Author

PURPOSE = "evidence"
ON_FINAL = "gates.prepared"


def begin_preparing(gate: Gate) -> None:
    """Plan the job that makes the evidence, or open the gate where nothing is to be made; in the caller's transaction.

    What is wrong with it is kept with the gate (`prepare_failed`), not raised: the work that asks goes on.
    """
    try:
        with transaction.atomic():
            preparation = _plan(gate)
            if preparation is None:
                open_gate(gate, figures={}, notes=[])
            else:
                _plan_job(gate, preparation)
    except ConductorError as error:
        gate.refresh_from_db()
        fail_preparing(gate, error.message)


def prepare_gate(gate_id: int) -> bool:
    """Begin again for a gate that is being prepared and has no job that is alive or unheard; whether it was so."""
    with transaction.atomic():
        gate = lock_gate(gate_id)
        if gate.state != GateState.PREPARING or _jobs(gate).filter(final_handled=False).exists():
            return False
        with about(gate=gate.uuid, run=gate.root_uuid):
            begin_preparing(gate)
    return True


def retry_preparing(*, gate_id: int, author: Author) -> None:
    """Have the evidence made again after it could not be."""
    with transaction.atomic():
        gate = lock_gate(gate_id)
        require_any(author, gate.lab_id, Ability.OPERATE, Ability.DECIDE, what="have evidence prepared again")
        message = f"{gate.title}, {gate.context}: {author.name} has its evidence prepared again"
        GATE.apply(gate, "retry_preparing", lab_id=gate.lab_id, subject=gate.subject(), message=message, error="")
        begin_preparing(gate)


def stop_preparing(gate: Gate, author: Author) -> None:
    """Cancel what still makes evidence for a gate that needs none any more."""
    for job in _jobs(gate).live():
        stop_job(job=job, author=author, reason="the gate was withdrawn")


def receive_evidence(job: Job, gathered: Gathered) -> None:
    """Take what a job has made to its gate, and open it; in the transaction that marks the job as handled.

    A job that ended late (the gate was withdrawn, a newer job makes its evidence) changes nothing.
    """
    gate = lock_gate_of(job.subject_uuid)
    if gate is None or gate.state != GateState.PREPARING or _jobs(gate).first() != job:
        return
    if words := gathered.error or over_quota(gate.lab, gathered.pieces):
        fail_preparing(gate, words)
        return
    try:
        with transaction.atomic():
            Evidence.objects.bulk_create(Evidence(gate=gate, **piece) for piece in gathered.pieces)
            open_gate(gate, figures=gathered.figures, notes=gathered.notes)
    except ConductorError as error:
        gate.refresh_from_db()
        fail_preparing(gate, error.message)


def script_for(preparation: Preparation, out_dir: str) -> str:
    """The bash script of a preparation: its commands in order, each with its own folder; the first failure ends it."""
    lines = ["#!/usr/bin/env bash", "set -euo pipefail", f"mkdir -p {shlex.quote(out_dir)}"]
    for number, command in enumerate(preparation.commands, start=1):
        folder = f"{out_dir}/{folder_name(number, command)}"
        own = [] if "--out" in command else ["--out", folder]
        lines += [f"echo {shlex.quote(f'== {folder_name(number, command)}')}", shlex.join([*command, *own])]
    return "\n".join(lines) + "\n"


def _plan(gate: Gate) -> Preparation | None:
    protocol = protocol_for(gate)
    try:
        return protocol.plan(gate)
    except ConductorError:
        raise
    except Exception as error:  # the protocol's code is not ours: what it trips over is told at the gate
        raise AdapterError(
            f"The protocol {gate.protocol} could not plan its evidence: {type(error).__name__}: {error}.",
            transient=False,
        ) from error


def _plan_job(gate: Gate, preparation: Preparation) -> None:
    attempt = _jobs(gate).count() + 1
    out_dir = f"{preparation.out_dir.rstrip('/')}/attempt_{attempt}"
    subject = gate.subject()
    plan_job(
        target=preparation.target,
        name=f"evidence for {gate.title}, {gate.context}"[:200],
        subject=subject,
        script=script_for(preparation, out_dir),
        script_name="evidence.sh",
        work_dir=preparation.work_dir,
        environment=preparation.environment | {OUT_VARIABLE: out_dir},
        purpose=PURPOSE,
        step=0,
        attempt=attempt,
        on_final=ON_FINAL,
        resources=preparation.resources,
    )


def _jobs(gate: Gate) -> JobQuerySet:
    return Job.objects.about(gate).filter(purpose=PURPOSE)


class Prepared:
    """What follows the end of a job that makes evidence (the job's `on_final` is gates.prepared)."""

    def gather(self, job: Job) -> Gathered:
        """Copy what the job left into the store. What can't be used becomes the gate's error or one of its notes."""
        shell = shell_for(job.target)
        if job.state != JobState.SUCCEEDED:
            return Gathered(error=failure_text(shell, job))
        try:
            return gather_evidence(shell, job.environment[OUT_VARIABLE])
        except ConductorError as error:
            if getattr(error, "transient", False):
                raise  # a full disk: gathered again later
            return Gathered(error=error.message)

    def lock(self, job: Job) -> None:
        """The gate, after its subject."""
        lock_gate_of(job.subject_uuid)

    def apply(self, job: Job, gathered: Gathered) -> None:
        """Give it to the gate; in the transaction that marks the job as handled."""
        receive_evidence(job, gathered)


PREPARED = Prepared()
