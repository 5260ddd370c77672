"""What stands against the values of a run: what can't be computed, and what can't be together."""

from collections.abc import Iterable, Mapping

from record.errors import BadInput
from runs.conf.evaluate import evaluate_all
from runs.derive.checks import findings
from runs.derive.collisions import shared_folders
from runs.models import Run, Species
from runs.pipeline.spec import PhaseSpec, PipelineSpec, spec_of
from runs.services.conf_values import check_conf, check_species_conf
from runs.services.values import conf_files, evaluated_values, resolved_values, species_defaults

EXPORT_FOLDER = "DATADIR"


def refuse_impossible(
    spec: PipelineSpec, run: Run, species: Species | None, conf: dict[str, str], changed: Iterable[str]
) -> None:
    """BadInput (`extra["fields"]`) where `conf`, as the run's or the species' own, can't be: for what was changed.

    Values of the run are checked with those of each species too, since these come on top.
    """
    faults: dict[str, str] = {}
    for lane in [species] if species else [None, *run.species.taking_part()]:
        faults |= lane_faults(spec, run, lane, conf, set(changed), of_run=species is None)
    if faults:
        raise BadInput(" ".join(dict.fromkeys(faults.values())), code="bad_conf", extra={"fields": faults})


def told_about(run: Run, species: Species | None, values: Mapping[str, object]) -> dict[str, str]:
    """name -> what would be said if these values were given now; nothing is changed. For forms being filled."""
    spec = spec_of(run.snapshot)
    try:
        checked = check_species_conf(spec, species.label, values) if species else check_conf(spec, values)
        now = species_defaults(spec, species.label) | species.conf if species else spec.defaults | run.conf
        changed = {name: value for name, value in checked.items() if value != now.get(name, "").strip()}
        if changed:
            own = species.conf if species else run.conf
            refuse_impossible(spec, run, species, {**own, **changed}, changed)
    except BadInput as refusal:
        told: dict[str, str] = refusal.extra.get("fields") or dict.fromkeys(values, refusal.message)
        return told
    return {}


def lane_faults(
    spec: PipelineSpec, run: Run, species: Species | None, conf: Mapping[str, str], changed: set[str], *, of_run: bool
) -> dict[str, str]:
    """name of a changed value -> what stands against it in one lane, if `conf` were the run's own or the species'.

    What could not be computed before either is left to the check before a phase starts: values are given one by one.
    """
    found, problems = evaluate_all(conf_files(spec, run, species, conf=conf, of_run=of_run))
    values = {name: each.value for name, each in found.items()}
    if new := {each.message for each in problems} - {each.message for each in evaluated_values(spec, run, species)[1]}:
        message = "; ".join(sorted(new))
        return {min(changed): f"{message[:1].upper()}{message[1:]}."}
    refused = [each for each in findings(values) if each.refused and changed & set(each.names)]
    return {each.name if each.name in changed else min(changed & set(each.names)): each.message for each in refused}


def phase_faults(spec: PipelineSpec, run: Run, species: Species | None, phase: PhaseSpec) -> list[str]:
    """What keeps a phase from being started, among the values that it uses."""
    used = {*phase.required_vars, *phase.optional_vars}
    found, problems = evaluated_values(spec, run, species)
    values = {name: each.value for name, each in found.items()}
    faults = [str(each) for each in problems]
    faults += [each.message for each in findings(values) if each.refused and used & set(each.names)]
    return faults + (_collisions(spec, run, species) if species and EXPORT_FOLDER in used else [])


def _collisions(spec: PipelineSpec, run: Run, species: Species) -> list[str]:
    lanes = {each.label: resolved_values(spec, run, each) for each in run.species.taking_part()}
    return [
        f"{' and '.join(labels)} would export into the same folder {folder}, where their particles would be mixed: "
        f"give each species a {EXPORT_FOLDER} of its own"
        for folder, labels in shared_folders(lanes, EXPORT_FOLDER).items()
        if species.label in labels
    ]
