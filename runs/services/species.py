"""Species that come to a run later: a conf and a lane of their own, on the tomograms that are there."""

from collections.abc import Mapping

from django.db import transaction
from django.db.models import Max

from jobs.shells import Shell, shell_for
from record.access import Ability, require
from record.errors import AdapterError, BadInput, InvalidTransition
from record.models import Decision
from record.services import Author, Ruling, record_decision, record_event
from runs.conf.placeholders import is_placeholder
from runs.derive.checks import findings
from runs.derive.collisions import shared_folders
from runs.derive.graph import with_derived
from runs.models import Run, Species
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.services.asking import mark_stale
from runs.services.board import Board, lock_run, refuse_archived
from runs.services.conf_values import check_species_conf, own_of
from runs.services.engine import advance
from runs.services.joining import begun_without
from runs.services.moves import move_run
from runs.services.naming import clean_labels
from runs.services.phases import insert_phases, wanted_phases
from runs.services.values import resolved_values, species_defaults
from runs.services.verify import MRC_HEADER_BYTES, mrc_faults, mrc_sides
from runs.states import RunState

NEEDED = ("DIAMETER", "TEMPLATE_INVERT", "NUM_CANDIDATES")  # of those, what the pipeline's species conf knows
OFFERED = ("INPUT_MRC", "MAP_ANGPIX", *NEEDED, "DATADIR")
FLAGS = frozenset({"0", "1", "true", "false", "yes", "no"})


def add_species(
    *, run: Run, label: str, values: Mapping[str, object], author: Author, reason: str = ""
) -> tuple[Species, Decision]:
    """Give a run another species; its lane begins with the first phase of species, on the same tomograms.

    `values` are those of its conf that differ from the pipeline's; DATADIR becomes subtomo_<label> where none is given.
    The template comes of INPUT_MRC and MAP_ANGPIX, or lies ready as templates/<label>_tm.mrc. A run that was done is
    reopened; what gathers all species and was done without this one becomes stale. Raises BadInput, and nothing is
    written, where anything can't be used.
    """
    spec = spec_of(run.snapshot)
    (label,) = clean_labels([label])
    conf = _checked(spec, run, label, values)
    _check_maps(shell_for(run.target), run, label, resolved_values(spec, run, Species(label=label, conf=conf)))
    with transaction.atomic():
        run = lock_run(run.pk)
        _refuse(run, author)
        _check_free(spec, run, label, conf)
        species = Species.objects.create(run=run, label=label, conf=conf, position=_next_position(run))
        ruling = Ruling("add_species", reason=reason.strip(), config_after={"TM_LABEL": label, **conf})
        decision = record_decision(lab_id=run.lab_id, subject=run.subject(), author=author, ruling=ruling)
        _join(run, spec, species, author, decision)
    return species, decision


def offered_values(spec: PipelineSpec) -> list[str]:
    """Names of the values that are asked for with a new species: what the pipeline's species confs know of these."""
    known = _known(spec)
    described = [field.key for field in spec.fields if field.species and field.key in known]
    return list(dict.fromkeys([*(name for name in OFFERED if name in known), *described]))


def _known(spec: PipelineSpec) -> set[str]:
    return set(spec.species_template or {}).union(*spec.species.values())


def _checked(spec: PipelineSpec, run: Run, label: str, values: Mapping[str, object]) -> dict[str, str]:
    """The species' own values as they are kept."""
    if not any(phase.per_species for phase in spec.phases):
        raise BadInput("This pipeline has no phase that is run for each species.")
    defaults = species_defaults(spec, label)
    preset = spec.preset(run.preset)
    given = {**(preset.species.get(label, {}) if preset else {}), **values}
    checked = check_species_conf(spec, label, given)
    if "DATADIR" in defaults and not checked.get("DATADIR") and label not in spec.species:
        checked["DATADIR"] = f"subtomo_{label}"
    conf = own_of(checked, defaults)
    _check_needed(resolved_values(spec, run, Species(label=label, conf=conf)), defaults)
    return conf


def _check_needed(values: Mapping[str, str], defaults: Mapping[str, str]) -> None:
    faults = {name: f"{name} has no value." for name in NEEDED if name in defaults and is_unset(values.get(name, ""))}
    if "DIAMETER" in defaults and "DIAMETER" not in faults and not _is_positive(values["DIAMETER"]):
        faults["DIAMETER"] = f"DIAMETER is {values['DIAMETER']!r}: give it in Angstrom, above 0."
    if "NUM_CANDIDATES" in defaults and "NUM_CANDIDATES" not in faults:
        count = values["NUM_CANDIDATES"]
        if not (count.isascii() and count.isdigit() and int(count) > 0):
            faults["NUM_CANDIDATES"] = f"NUM_CANDIDATES is {count!r}: give a whole number above 0."
    if "TEMPLATE_INVERT" in defaults and "TEMPLATE_INVERT" not in faults:
        flag = values["TEMPLATE_INVERT"]
        if flag.lower() not in FLAGS:
            faults["TEMPLATE_INVERT"] = f"TEMPLATE_INVERT is {flag!r}: give 1 or 0."
    faults |= {each.name: each.message for each in findings(values) if each.refused and each.name not in faults}
    if faults:
        raise BadInput(" ".join(faults.values()), code="bad_conf", extra={"fields": faults})


def is_unset(value: str) -> bool:
    """Whether a value of a conf is empty, or still what stands in a template to be replaced."""
    return not value.strip() or is_placeholder(value)


def _is_positive(text: str) -> bool:
    try:
        return 0 < float(text) < float("inf")
    except ValueError:
        return False


def _check_maps(shell: Shell, run: Run, label: str, values: Mapping[str, str]) -> None:
    """BadInput unless there is something to make the template of, or a template that fits."""
    if "INPUT_MRC" not in values:
        return
    ready = f"{run.work_dir}/templates/{label}_tm.mrc"
    there = shell.glob(run.work_dir, [f"templates/{label}_tm.mrc"])[f"templates/{label}_tm.mrc"]
    if there:
        _check_template(shell, ready, with_derived(values).get("TM_BOX_SIZE", ""))
    elif is_unset(values["INPUT_MRC"]):
        message = f"Give INPUT_MRC and MAP_ANGPIX, or put a template at {ready}."
        raise BadInput(message, code="bad_conf", extra={"fields": {"INPUT_MRC": message}})
    else:
        _check_input(shell, run, values)


def _check_input(shell: Shell, run: Run, values: Mapping[str, str]) -> None:
    path = values["INPUT_MRC"] if values["INPUT_MRC"].startswith("/") else f"{run.work_dir}/{values['INPUT_MRC']}"
    faults = {}
    try:
        shell.size(path)
    except AdapterError as error:
        if error.transient:
            raise
        faults["INPUT_MRC"] = f"The map INPUT_MRC can't be read: {error.message}"
    if not _is_positive(values.get("MAP_ANGPIX", "")):
        faults["MAP_ANGPIX"] = f"MAP_ANGPIX is {values.get('MAP_ANGPIX', '')!r}: give the map's pixel size in Angstrom."
    if faults:
        raise BadInput(" ".join(faults.values()), code="bad_conf", extra={"fields": faults})


def _check_template(shell: Shell, path: str, box_px: str) -> None:
    """BadInput unless it is an MRC volume whose three sides are the box (where the box is known), else equal."""
    folder, _, name = path.rpartition("/")
    (fact,) = shell.glob(folder, [name])[name]
    if faults := mrc_faults(shell, fact):
        raise BadInput(f"The template {path} can't be used: it {faults[0]}.")
    sides = mrc_sides(shell.read(path, limit=MRC_HEADER_BYTES))
    wanted = int(box_px) if box_px.isascii() and box_px.isdigit() else sides[0]
    if set(sides) != {wanted}:
        shape = " x ".join(str(side) for side in sides)
        box = f"TM_BOX_SIZE is {wanted} px" if box_px else "a template is a cube"
        raise BadInput(f"The template {path} has {shape} px, and {box}: make it anew, or correct the box.")


def _refuse(run: Run, author: Author) -> None:
    if author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)
    refuse_archived(run)
    if run.state == RunState.CANCELLED:
        raise InvalidTransition(f"Run {run.name} is cancelled: no species comes to it any more.")


def _check_free(spec: PipelineSpec, run: Run, label: str, conf: Mapping[str, str]) -> None:
    """BadInput where the run has the species already, or another one that exports into the same folder."""
    there = run.species.filter(label=label).first()
    if there is not None and there.dropped_by_id is not None:
        raise BadInput(f"Run {run.name} had the species {label}, which was dropped: bring it back on the run's page.")
    if there is not None:
        raise BadInput(f"Run {run.name} has the species {label} already: change its values in the settings.")
    lanes = [*run.species.taking_part(), Species(label=label, conf=dict(conf))]
    for folder, labels in shared_folders({each.label: resolved_values(spec, run, each) for each in lanes}).items():
        if label in labels:
            theirs = " and ".join(each for each in labels if each != label)
            message = f"The species {theirs} exports into {folder} already: give this one a DATADIR of its own."
            raise BadInput(message, code="bad_conf", extra={"fields": {"DATADIR": message}})


def _next_position(run: Run) -> int:
    last: int | None = run.species.aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


def _join(run: Run, spec: PipelineSpec, species: Species, author: Author, decision: Decision) -> None:
    """The lane's phases; what was done for all species without it becomes stale; the run goes on."""
    record_event(
        lab_id=run.lab_id,
        kind="run.add_species",
        subject=run.subject(),
        message=f"{run.name}: the species {species.label} added by {author.name}",
        data={"species": species.label, "values": species.conf},
        decision=decision,
    )
    insert_phases(run, spec, [species], optional=wanted_phases(run))
    if run.state == RunState.DONE:
        message = f"{run.name}: reopened for the species {species.label}"
        move_run(run, "reopen", message=message, decision=decision, ended_at=None)
    board = Board.load(run)
    mark_stale(begun_without(board, species), decision, f"the species {species.label} was added since")
    advance(run, board)
