"""Begins a run: everything that can be refused is refused before anything is written."""

from collections.abc import Collection, Mapping, Sequence

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from jobs.cluster_models import ShellKind
from jobs.deadline import longer
from jobs.models import Cluster, Target
from jobs.shells import SYSTEM_PATH, Shell, shell_for, within_roots
from record.access import Ability, require
from record.errors import BadInput
from record.services import Author, record_event
from runs.models import Pipeline, Run, Species
from runs.pipeline.snapshot import snapshot_pipeline
from runs.pipeline.spec import PipelineSpec, PresetSpec, spec_of
from runs.services.board import lock_run
from runs.services.conf_values import check_conf, check_species_conf, own_of
from runs.services.engine import advance
from runs.services.folder import lay_out
from runs.services.in_place import require_alone, require_unchanged
from runs.services.naming import clean_labels, clean_run_name
from runs.services.phases import insert_phases
from runs.services.preflight import plan_look
from runs.services.replay import check_replay_folder
from runs.services.values import species_defaults

CHECK_TIMEOUT_S = 20
LAY_OUT_S = 30


def create_run(
    *,
    lab_id: int,
    author: Author,
    pipeline: Pipeline,
    target: Target,
    name: str,
    work_dir: str,
    conf: Mapping[str, object],
    species: list[str],
    preset: str = "",
    optional: Sequence[str] = (),
    replay: bool = False,
    in_place: bool = False,
) -> Run:
    """Begin a run of `pipeline` in `work_dir` on `target`, and let it go as far as its first gate or phase.

    `conf` holds values of pipeline.conf, which go over those of the preset; `species` the labels, a lane each (with
    none, the phases that all share are run alone); `optional` the keys of optional phases that are wanted: others of
    them are skipped, and can be run later all the same.

    With `replay` nothing is ever started: what an earlier passage left in `work_dir` is read from disk, up to the next
    gate, and presented. With `in_place` the pipeline's own folder is used, which must lie on the target, below its
    roots, as it is here; else the run has a copy. Raises BadInput (or PipelineFaults) in words, and nothing is written,
    where anything can't be used.
    """
    user = _operator(author, lab_id)
    name = clean_run_name(name)
    labels = clean_labels(species)
    check_belonging(lab_id, pipeline, target, name)
    folder = within_roots(target, work_dir.strip())
    check_unused(target, folder)
    snapshot = snapshot_pipeline(pipeline)
    spec = spec_of(snapshot)
    _check_optional(spec, optional)
    chosen = _find_preset(spec, preset)
    values = check_conf(spec, {**chosen.conf, **conf})
    species_values = _species_values(spec, labels, chosen)
    if replay:
        check_replay_folder(target, folder)
    else:
        _check_folder(shell_for(target), target, folder)
    run = Run(
        lab_id=lab_id,
        name=name,
        snapshot=snapshot,
        target=target,
        work_dir=folder,
        preset=preset,
        conf=own_of(values, spec.defaults),
        replay=replay,
        in_place=in_place and not replay,
        created_by=user,
    )
    if run.in_place:
        within_roots(target, pipeline.folder)
        require_unchanged(shell_for(target), run)
    if not replay:
        with longer(LAY_OUT_S):  # it has just answered
            lay_out(run)
    with transaction.atomic():
        insert_run(run, spec, species_values, author, optional)
        advance(lock_run(run.pk))
    run.refresh_from_db()
    return run


def _operator(author: Author, lab_id: int) -> User:
    if author.user is None:
        raise BadInput("A run is begun by somebody: give the person who wants it.")
    require(author.user, Ability.OPERATE, lab_id)
    return author.user


def check_belonging(lab_id: int, pipeline: Pipeline, target: Target, name: str) -> None:
    """BadInput where pipeline or target is not the lab's to use, or the name is taken."""
    if pipeline.lab_id != lab_id or pipeline.archived_at:
        raise BadInput(f"This lab has no pipeline {pipeline.name} to run (any more).")
    if target.lab_id != lab_id or target.archived_at:
        raise BadInput(f"This lab has no target {target.name} to run on (any more).")
    if Run.objects.filter(lab_id=lab_id, name=name).exists():
        raise BadInput(f"There is a run called {name} already; give this one another name.")


def check_unused(target: Target, folder: str) -> None:
    """BadInput where the folder is that of another run, lies in it or holds it: their files would mix."""
    runs = Run.objects.current().filter(target__in=_same_files(target))
    for lab_id, run_name, theirs in runs.values_list("lab_id", "name", "work_dir"):
        whose = f"run {run_name}" if lab_id == target.lab_id else "a run of another lab"
        if theirs == folder:
            what = "belongs to"
        elif folder.startswith(f"{theirs}/"):
            what = f"lies in {theirs}, the folder of"
        elif theirs.startswith(f"{folder}/"):
            what = f"holds {theirs}, the folder of" if lab_id == target.lab_id else "holds the folder of"
        else:
            continue
        raise BadInput(f"The folder {folder} {what} {whose}. Choose another, or archive that run first.")


def _same_files(target: Target) -> QuerySet[Target]:
    """The targets whose files are the same: itself, and where it lies on its own host, the others that do."""
    over_ssh = Cluster.objects.filter(shell=ShellKind.SSH).values("target_id")
    if Cluster.objects.filter(pk=target.pk, shell=ShellKind.SSH).exists():
        return Target.objects.filter(pk=target.pk)
    return Target.objects.filter(host=target.host).exclude(pk__in=over_ssh)


def _find_preset(spec: PipelineSpec, key: str) -> PresetSpec:
    found = spec.preset(key) if key else PresetSpec("", "")
    if found is None:
        raise BadInput(
            f"This pipeline has no preset {key!r}; it has: {', '.join(p.key for p in spec.presets) or 'none'}."
        )
    return found


def _species_values(spec: PipelineSpec, labels: list[str], preset: PresetSpec) -> dict[str, dict[str, str]]:
    if not labels:
        _check_without_species(spec)
    result = {}
    for label in labels:
        defaults = species_defaults(spec, label)
        result[label] = own_of(check_species_conf(spec, label, preset.species.get(label, {})), defaults)
    return result


def _check_without_species(spec: PipelineSpec) -> None:
    """Without species the shared phases alone are run; BadInput where that can't be."""
    shared = [phase for phase in spec.phases if not phase.per_species]
    if not shared or any(spec.by_key[key].per_species for phase in shared for key in phase.needs):
        raise BadInput("Choose at least one species: the pipeline has phases that need those run for each.")


def _check_folder(shell: Shell, target: Target, folder: str) -> None:
    """BadInput unless the folder is there and can be written, or can be made."""
    script = (
        'p="$1"; while [ ! -e "$p" ]; do p=$(dirname "$p"); done; echo "$p"; [ -d "$p" ] && [ -w "$p" ] && [ -x "$p" ]'
    )
    done = shell.run(
        ["bash", "-c", script, "check", folder], env={"PATH": SYSTEM_PATH}, cwd="/", timeout_s=CHECK_TIMEOUT_S
    )
    if done.returncode:
        there = done.stdout.strip()
        what = "isn't there and can't be made" if there != folder else "can't be written, or isn't a folder"
        raise BadInput(f"The folder {folder} {what} on target {target.name} (see {there}).")


def _check_optional(spec: PipelineSpec, keys: Sequence[str]) -> None:
    known = [phase.key for phase in spec.phases if phase.optional]
    if unknown := [key for key in keys if key not in known]:
        raise BadInput(
            f"{unknown[0]!r} is no optional phase of this pipeline; there are: {', '.join(known) or 'none'}."
        )


def insert_run(
    run: Run,
    spec: PipelineSpec,
    species_values: dict[str, dict[str, str]],
    author: Author,
    optional: Collection[str],
) -> None:
    """The run with its species and phases; in the caller's transaction."""
    try:
        with transaction.atomic():
            check_unused(run.target, run.work_dir)
            if run.in_place:
                require_alone(run)
            run.save()
    except IntegrityError:
        raise BadInput(
            f"A run called {run.name}, or one in {run.work_dir}, was begun at this moment; choose anew."
        ) from None
    lanes: list[Species] = []
    for position, (label, values) in enumerate(species_values.items()):
        lanes.append(Species.objects.create(run=run, label=label, conf=values, position=position))
    insert_phases(run, spec, [None, *lanes], optional=optional)
    plan_look(run)
    record_event(
        lab_id=run.lab_id,
        kind="run.create",
        subject=run.subject(),
        message=f"{run.name}: {_begun(run)} by {author.name} in {run.work_dir} on {run.target.name}",
        data={"snapshot": run.snapshot.digest, "species": [lane.label for lane in lanes], "preset": run.preset},
    )


def _begun(run: Run) -> str:
    return "a replay begun" if run.replay else "begun"
