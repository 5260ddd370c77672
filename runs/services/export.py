"""Writes a run's state into the lab's own state file after each change, so that the lab's other tools still see it."""

import hashlib
import json
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from gates.models import Gate
from jobs.hosts import this_host
from jobs.models import Job
from jobs.shells import Shell, shell_for
from record.access import Ability, require
from record.errors import AdapterError, BadInput, InvalidTransition
from record.models import Decision, Event
from record.services import Author, record_event
from runs.models import Phase, Run
from runs.pipeline.spec import GateSpec, PipelineSpec, spec_of
from runs.preflight.findings import BLOCKS, OK
from runs.preflight.tools import HOMES
from runs.querysets import RunQuerySet
from runs.services.board import lock_run, refuse_archived, series_names
from runs.services.preflight import last_findings
from runs.services.steps import PURPOSE
from runs.services.values import pipeline_folder
from runs.statefile.read import MAX_BYTES, STATE_FILE, Work, read_state
from runs.statefile.render import Now, Passed, render_state

KEPT = ".conductor/state_files"
FIELD_GATES = ("setup", "alignment_qc", "tm_params", "picks_qc", "state_selection", "refine")


def write_state_file(*, run: Run, author: Author, on: bool = True) -> None:
    """Have the lab's state file written from now on, after each change; or (not `on`) leave it alone from now on."""
    with transaction.atomic():
        run = lock_run(run.pk)
        if author.user is not None:
            require(author.user, Ability.OPERATE, run.lab_id)
        refuse_archived(run)
        if run.exports_state == on:
            raise InvalidTransition(f"{STATE_FILE} of run {run.name} is {'written' if on else 'left alone'} already.")
        Run.objects.filter(pk=run.pk).update(exports_state=on, state_event=0)
        what = f"{STATE_FILE} is written from now on" if on else f"{STATE_FILE} is left alone from now on"
        message = f"{run.name}: {what}, by {author.name}"
        record_event(lab_id=run.lab_id, kind="run.export_state", subject=run.subject(), message=message)


def due_exports(target_id: int | None = None) -> list[int]:
    """Keys of the runs whose state file is behind their events: of one cluster, or of this host's local targets."""
    runs = _behind()
    where = {"target__kind": "local", "target__host": this_host()} if target_id is None else {"target": target_id}
    return list(runs.filter(**where).order_by("id").values_list("pk", flat=True))


def due_at_clusters() -> set[int]:
    """Keys of the clusters' targets at which a state file is behind."""
    return set(_behind().filter(target__kind="slurm").values_list("target", flat=True))


def _behind() -> RunQuerySet:
    later = Event.objects.filter(root_uuid=OuterRef("uuid"), id__gt=OuterRef("state_event"))
    return Run.objects.current().filter(Exists(later), exports_state=True)


def export_state(run_id: int) -> bool:
    """Write the run's state file whole (a temporary file, then a rename); whether there was anything to tell.

    What others have written into it since is kept aside, and keys that only they know are taken over. Raises
    AdapterError where the folder can't be reached or written; it is then tried again.
    """
    run = Run.objects.select_related("snapshot", "target").defer("snapshot__spec").get(pk=run_id)
    if not run.exports_state or run.archived_at:
        return False
    last = Event.objects.filter(root_uuid=run.uuid).order_by("-id").values_list("id", flat=True).first() or 0
    shell = shell_for(run.target)
    before, kept = _before(shell, run)
    text = render_state(before, state_now(run))
    shell.write(f"{run.work_dir}/{STATE_FILE}", text.encode())
    with transaction.atomic():
        if kept:
            message = f"{run.name}: {STATE_FILE} was changed by others; what they wrote lies in {kept}"
            record_event(lab_id=run.lab_id, kind="run.keep_state_file", subject=run.subject(), message=message)
        seen = Run.objects.filter(pk=run.pk, state_event=run.state_event)
        seen.update(state_file=text, state_event=last)
    return True


def _before(shell: Shell, run: Run) -> tuple[dict[str, Any], str]:
    """(what stands in the file, or stood there last; where it was kept, if it is not what we wrote)."""
    last: dict[str, Any] = json.loads(run.state_file) if run.state_file else {}
    try:
        data = shell.read(f"{run.work_dir}/{STATE_FILE}", limit=MAX_BYTES + 1)
    except AdapterError as error:
        if error.transient:
            raise
        return last, ""  # it isn't there; where it can't be read for another reason, writing it says so
    if data == run.state_file.encode():
        return last, ""
    kept = f"{KEPT}/{hashlib.sha256(data).hexdigest()[:16]}.json"
    shell.write(f"{run.work_dir}/{kept}", data)
    try:
        return {**last, **read_state(data).raw}, kept
    except BadInput:
        return last, kept


def state_now(run: Run) -> Now:
    """The run as its state file tells it."""
    spec = spec_of(run.snapshot)
    rows = Phase.objects.filter(run=run, species__dropped_by=None)  # a dropped species is none of the run's any more
    phases = list(rows.select_related("species").order_by("position", "species__position"))
    ids = _native_ids(run)
    lanes: dict[str, dict[str, Work]] = {}
    for phase in phases:
        label = phase.species.label if phase.species else ""
        job_ids = tuple(dict.fromkeys([*map(str, phase.awaited_ids), *ids.get(phase.uuid, [])]))
        lanes.setdefault(phase.key, {})[label] = Work(phase.state, job_ids, phase.reason)
    return Now(
        uuid=str(run.uuid),
        work_dir=run.work_dir,
        pipeline_conf=f"{pipeline_folder(run)}/pipeline.conf",
        species=[each.label for each in run.species.taking_part()],
        lanes=lanes,
        passed=_passed(run, spec, phases),
        excluded=series_names(run).excluded,
        replay=run.replay,
        gates=frozenset(name_in_file(gate) for gate in spec.gates),
        looked=_looked(run),
    )


def _looked(run: Run) -> dict[str, dict[str, Any]]:
    """The file's `environment`, `cluster` and `preflight`, as the last look at the target found them."""
    findings = last_findings(run)
    if not findings:
        return {}
    tools = {each.key: each.found or None for each in findings if each.key in HOMES}
    conda = {each.key.lower(): each.found for each in findings if each.key.endswith("_ENV") and each.status == OK}
    forks = [each.status == OK for each in findings if each.key == "warp_fork"]
    environment: dict[str, Any] = {"discovered": True, "tools": tools, "conda": conda}
    looked: dict[str, dict[str, Any]] = {
        "environment": environment | ({"warp_fork_ok": forks[0]} if forks else {}),
        "preflight": {"status": "failed" if any(each.status == BLOCKS for each in findings) else "done"},
    }
    partitions = [each.found.split(",") for each in findings if each.key == "partitions" and each.found]
    return looked | ({"cluster": {"partitions": partitions[0]}} if partitions else {})


def name_in_file(gate: GateSpec) -> str:
    """What the file calls a gate: the field's own name, where its key or protocol is one, else its key."""
    return next((name for name in (gate.key, gate.protocol) if name in FIELD_GATES), gate.key)


def _native_ids(run: Run) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    jobs = Job.objects.filter(root_uuid=run.uuid, purpose=PURPOSE).exclude(native_id="").order_by("id")
    for subject_uuid, native_id in jobs.values_list("subject_uuid", "native_id"):
        found.setdefault(subject_uuid, []).append(native_id)
    return found


def _passed(run: Run, spec: PipelineSpec, phases: list[Phase]) -> list[Passed]:
    decided = _decisions(run)
    names = {gate.key: name_in_file(gate) for gate in spec.gates}
    return [
        Passed(names[key], phase.species.label if phase.species else "", _told(decided.get((phase.uuid, key))))
        for phase in phases
        for key in phase.gates_passed
        if key in names
    ]


def _decisions(run: Run) -> dict[tuple[Any, str], Decision]:
    """(phase's UUID, gate's key) -> the last decision there."""
    rows = Gate.objects.filter(root_uuid=run.uuid, decision__isnull=False).order_by("iteration")
    return {
        (gate.subject_uuid, gate.key): gate.decision
        for gate in rows.select_related("decision__statement")
        if gate.decision is not None
    }


def _told(decision: Decision | None) -> dict[str, Any]:
    """What an entry says of a decision: in the words of the file where they fit, and by whom it was made."""
    if decision is None:
        return {}
    answers = decision.statement.answers
    entry: dict[str, Any] = {"decided_by": decision.actor_name, "decided_at": decision.at.isoformat()}
    rows = answers.get("series")
    if isinstance(rows, dict):
        kept = {name: bool(row.get("keep", True)) for name, row in rows.items() if isinstance(row, dict)}
        entry |= {"kept": [n for n, keep in kept.items() if keep], "excluded": [n for n, k in kept.items() if not k]}
    elif answers:
        entry["params_set"] = answers
    return entry | {"decision": str(decision.uuid)}
