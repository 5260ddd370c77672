"""Takes up a run that a lab's own tools have driven so far, from their state file."""

import hashlib
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from jobs.models import Target
from jobs.shells import SYSTEM_PATH, Shell, shell_for, within_roots
from record.access import Ability, require
from record.errors import AdapterError, BadInput
from record.models import ActorKind, Decision
from record.services import Author, Ruling, Subject, record_decision, record_event
from runs.models import Phase, Pipeline, Run, TiltSeries
from runs.pipeline.snapshot import snapshot_pipeline
from runs.pipeline.spec import GateSpec, PipelineSpec, spec_of
from runs.services.board import lock_run
from runs.services.conf_values import RESERVED, check_conf, check_species_conf, own_of
from runs.services.create import CHECK_TIMEOUT_S, check_belonging, check_unused, insert_run
from runs.services.engine import advance
from runs.services.export import name_in_file
from runs.services.folder import lay_out
from runs.services.naming import clean_labels, clean_run_name
from runs.services.replay import check_replay_folder
from runs.services.values import read_values, species_defaults, species_file
from runs.statefile.read import MAX_BYTES, STATE_FILE, Approval, LabState, Work, read_state, series_name
from runs.states import PhaseState

MAX_CONF_BYTES = 256 * 1024
LOOKED_FOR = frozenset({"running", "verifying", "checkpoint", "done"})


def import_run_state(
    *, author: Author, pipeline: Pipeline, target: Target, path: str, name: str = "", replay: bool = False
) -> Run:
    """Make a run of the state file at `path` on `target`: its phases, approvals as decisions, exclusions and job ids.

    What the file calls done, running or waiting is looked for on disk before it counts; a job that the cluster still
    has is waited for. Approvals are recorded with the actor "imported". With `replay`, or where the file says so, the
    run is a replay. Raises BadInput, and nothing is changed, for a torn file, another schema, a phase or species that
    the pipeline doesn't have, or values that can't be used.
    """
    if author.user is None:
        raise BadInput("A run is taken up by somebody: give the person who wants it.")
    require(author.user, Ability.OPERATE, pipeline.lab_id)
    shell = shell_for(target)
    data = shell.read(path, limit=MAX_BYTES + 1)
    state = read_state(data, path)
    folder = within_roots(target, state.work_dir)
    run = Run(
        lab_id=pipeline.lab_id,
        name=clean_run_name(name or folder.rpartition("/")[2]),
        target=target,
        work_dir=folder,
        replay=replay or state.replay,
        exports_state=True,
        state_file=data.decode("utf-8-sig"),
        created_by=author.user,
    )
    check_belonging(pipeline.lab_id, pipeline, target, run.name)
    check_unused(target, folder)
    check_replay_folder(target, folder) if run.replay else _check_there(shell, folder)
    run.snapshot = snapshot_pipeline(pipeline)
    spec = spec_of(run.snapshot)
    labels = clean_labels(list(state.species))
    _check_phases(spec, state, labels)
    run.conf, species = _values(shell, spec, pipeline, state, labels)
    if not run.replay:
        lay_out(run)
    source = Author(ActorKind.IMPORTED, f"{STATE_FILE}, taken up by {author.name}", author.door)
    with transaction.atomic():
        insert_run(run, spec, species, author, _begun(spec, state, labels))
        _take_up(run, spec, state, author, source, hashlib.sha256(data).hexdigest())
        advance(lock_run(run.pk))
    run.refresh_from_db()
    return run


def _check_there(shell: Shell, folder: str) -> None:
    if shell.run(["test", "-d", folder], env={"PATH": SYSTEM_PATH}, cwd="/", timeout_s=CHECK_TIMEOUT_S).returncode:
        raise BadInput(f"The work folder {folder} that the state file names isn't there. Nothing was changed.")


def _check_phases(spec: PipelineSpec, state: LabState, labels: list[str]) -> None:
    """BadInput where the file speaks of a phase with jobs or progress, or of a lane, that can't be placed."""
    unknown = [
        key
        for key, work in state.phases.items()
        if key not in spec.by_key and work.status not in ("pending", "skipped")
    ]
    groups = [key for key in unknown if any(each.startswith(key) and each != key for each in spec.by_key)]
    if lost := [key for key in unknown if key not in groups]:
        known = ", ".join(spec.by_key)
        raise BadInput(f"The pipeline has no phase {', '.join(lost)}; it has: {known}. Nothing was changed.")
    strange = sorted({label for _, label in state.lanes if label not in labels})
    strange += sorted({each.species for each in state.approvals if each.species and each.species not in labels})
    if strange:
        raise BadInput(
            f"The file's project names no species {', '.join(strange)}, but speaks of it. Nothing was changed."
        )


def _values(
    shell: Shell, spec: PipelineSpec, pipeline: Pipeline, state: LabState, labels: list[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """(the run's own values, label -> its species' own): what the confs that the lab used have otherwise."""
    conf = state.pipeline_conf
    if conf and not conf.startswith("/"):
        conf = f"{state.work_dir}/{conf}"
    elsewhere = conf and conf != f"{pipeline.folder}/pipeline.conf"
    theirs = _on_disk(shell, conf) if elsewhere else {}
    own = own_of(check_conf(spec, _known(theirs, spec.defaults)), spec.defaults)
    species: dict[str, dict[str, str]] = {}
    for label in labels:
        defaults = species_defaults(spec, label)
        beside = f"{conf.rpartition('/')[0]}/{species_file(spec, label)}"
        found = _on_disk(shell, beside, needed=False) if elsewhere else {}
        species[label] = own_of(check_species_conf(spec, label, _known(found, defaults)), defaults)
    return own, species


def _known(values: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The values that can be the run's own: names of the pipeline's conf, but for those that the run itself sets."""
    return {key: value for key, value in values.items() if key in defaults and key not in {*RESERVED, "TM_LABEL"}}


def _on_disk(shell: Shell, path: str, *, needed: bool = True) -> dict[str, str]:
    try:
        data = shell.read(path, limit=MAX_CONF_BYTES + 1)
    except AdapterError as error:
        if error.transient or needed:
            raise
        return {}
    if len(data) > MAX_CONF_BYTES:
        raise BadInput(f"{path} is larger than {MAX_CONF_BYTES} bytes: not a conf file. Nothing was changed.")
    try:
        return read_values(data.decode(), path)
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text. Nothing was changed.") from None


def _take_up(run: Run, spec: PipelineSpec, state: LabState, author: Author, source: Author, digest: str) -> None:
    phases = list(Phase.objects.filter(run=run).select_related("species").order_by("position", "id"))
    for phase in phases:
        phase.run = run
        _place(phase, spec, state)
    decisions = [_record(run, spec, phases, each, source) for each in state.approvals]
    _exclude(run, state, decisions, source)
    record_event(
        lab_id=run.lab_id,
        kind="run.import_state",
        subject=run.subject(),
        message=f"{run.name}: taken up from {STATE_FILE} by {author.name}, {len(decisions)} approvals with it",
        data={"sha256": digest, "phases": {key: work.status for key, work in state.phases.items()}},
    )


def _place(phase: Phase, spec: PipelineSpec, state: LabState) -> None:
    """Put a phase where the file says it is. It is a new row that nobody has seen: no event tells of it."""
    label = phase.species.label if phase.species else ""
    work = state.work_of(phase.key, label)
    gates = [gate for where in ("before", "after") for gate in spec.gates_at(phase.key, where)]
    passed = [gate.key for gate in gates if state.is_approved(_names(gate), label)]
    changes: dict[str, Any] = {"gates_passed": passed, "awaited_ids": list(work.job_ids)}
    if work.status in LOOKED_FOR:
        changes["on_disk"] = True
    elif work.status == "skipped":
        changes |= {"state": PhaseState.SKIPPED, "reason": work.reason or f"Skipped, by {STATE_FILE}."}
    elif work.status == "failed":
        changes |= {"state": PhaseState.FAILED, "reason": _failure(work)}
    Phase.objects.filter(pk=phase.pk).update(**changes)


def _begun(spec: PipelineSpec, state: LabState, labels: list[str]) -> set[str]:
    """Keys of the optional phases that the file says were wanted, in any lane."""
    return {
        phase.key
        for phase in spec.phases
        if phase.optional
        and any(state.work_of(phase.key, label).status not in ("pending", "skipped") for label in ["", *labels])
    }


def _failure(work: Work) -> str:
    jobs = f", jobs {', '.join(work.job_ids)}" if work.job_ids else ""
    return (
        f"Failed before it was taken up{jobs}: {work.reason}"[:2000]
        if work.reason
        else f"Failed by {STATE_FILE}{jobs}."
    )


def _names(gate: GateSpec) -> set[str]:
    return {gate.key, name_in_file(gate)}


def _record(run: Run, spec: PipelineSpec, phases: list[Phase], each: Approval, source: Author) -> Decision:
    """The approval as a decision about the phase at which the gate stands; about the run where it stands nowhere."""
    gate = next((gate for gate in spec.gates if each.gate in _names(gate)), None)
    at = [phase for phase in phases if gate and phase.key == gate.phase]
    mine = [phase for phase in at if not each.species or (phase.species and phase.species.label == each.species)]
    subject: Subject = mine[0].subject() if len(mine) == 1 else run.subject()
    ruling = Ruling("approve", reason=f"Approved in {STATE_FILE}: {each.gate}", answers=each.entry)
    return record_decision(lab_id=run.lab_id, subject=subject, author=source, ruling=ruling)


def _exclude(run: Run, state: LabState, decisions: list[Decision], source: Author) -> None:
    """The excluded series, by the decision at the gate that names them, or by one of its own."""
    by_gate = {
        series_name(name): decision
        for each, decision in zip(state.approvals, decisions, strict=True)
        if each.gate == "alignment_qc"
        for name in each.entry.get("excluded") or []
    }
    for name in state.excluded:
        series = TiltSeries.objects.create(run=run, name=name)
        ruling = Ruling("exclude", reason=f"Excluded in {STATE_FILE}")
        series.excluded_by = by_gate.get(name) or record_decision(
            lab_id=run.lab_id, subject=series.subject(), author=source, ruling=ruling
        )
        series.save(update_fields=["excluded_by"])
