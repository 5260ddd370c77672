"""The values that a run's scripts see: the snapshot's conf files with the run's own values over them."""

from collections.abc import Mapping
from functools import lru_cache

from record.errors import BadInput
from runs.conf.errors import ConfFault
from runs.conf.evaluate import ConfValue, evaluate_all
from runs.conf.files import ConfFile, read_conf
from runs.conf.words import to_template
from runs.models import Run, Snapshot, Species
from runs.pipeline.spec import PipelineSpec
from runs.pipeline.store import folder_of

PIPELINE_FOLDER = ".conductor/pipeline"
EXCLUDED_FILE = "excluded_series.txt"


def species_defaults(spec: PipelineSpec, label: str) -> dict[str, str]:
    """A species' conf as the pipeline has it; for a label of its own the pattern of `species.conf`. BadInput else."""
    if label in spec.species:
        return spec.species[label]
    if spec.species_template is not None:
        return spec.species_template | {"TM_LABEL": label}
    known = ", ".join(spec.species) or "none"
    raise BadInput(f"This pipeline has no species {label!r}; it has: {known}.")


def read_values(text: str, name: str) -> dict[str, str]:
    """Name -> value, as people type it, of a conf file that a lab has used; ConfRefused with lines of that `name`."""
    return read_conf(text, name).templates


def own_values(run: Run) -> dict[str, str]:
    """The values of pipeline.conf that are the run's own, its folder among them."""
    return run.conf | own_folder(run)


def own_folder(run: Run) -> dict[str, str]:
    """The value that says where the run's folder is."""
    return {"WORK_DIR": to_template((run.work_dir,))}


def own_species_values(spec: PipelineSpec, species: Species) -> dict[str, str]:
    """The values of a species conf that are the run's own; its label among them where it stems from the pattern."""
    return species.conf | own_label(spec, species)


def own_label(spec: PipelineSpec, species: Species) -> dict[str, str]:
    """The value that names the species, where its conf stems from the pattern."""
    return {} if species.label in spec.species else {"TM_LABEL": species.label}


def resolved_values(spec: PipelineSpec, run: Run, species: Species | None) -> dict[str, str]:
    """Name -> value as a script sees it once it has sourced its conf files; empty where it can't be computed yet."""
    return {name: each.value for name, each in evaluated_values(spec, run, species)[0].items()}


def evaluated_values(
    spec: PipelineSpec, run: Run, species: Species | None
) -> tuple[dict[str, ConfValue], list[ConfFault]]:
    """The same with what each value came from, and what could not be computed."""
    return evaluate_all(conf_files(spec, run, species))


def conf_files(
    spec: PipelineSpec,
    run: Run,
    species: Species | None,
    *,
    conf: Mapping[str, str] | None = None,
    of_run: bool = True,
) -> list[ConfFile]:
    """The conf files that a script sources, in that order, with the run's own values in them.

    With `conf`, as they would be if that were the own values of the run (`of_run`), else those of the species.
    """
    files = [pipeline_conf(run, run.conf if conf is None or not of_run else conf)]
    if species is not None:
        own = species.conf if conf is None or of_run else conf
        files.append(species_conf(run.snapshot, spec, species.label, {**own, **own_label(spec, species)}))
    return files


def pipeline_conf(run: Run, conf: Mapping[str, str] | None = None) -> ConfFile:
    """The run's pipeline.conf; with `conf` in place of its own values."""
    own = own_values(run) if conf is None else {**conf, **own_folder(run)}
    return _source(run.snapshot.digest, "pipeline.conf", "pipeline.conf").with_values(own)


def species_conf(snapshot: Snapshot, spec: PipelineSpec, label: str, values: Mapping[str, str]) -> ConfFile:
    """A species' conf with these values; for a label of its own by the pattern of `species.conf`."""
    name = species_file(spec, label)
    return _source(snapshot.digest, name if label in spec.species else "species.conf", name).with_values(values)


@lru_cache(maxsize=256)
def _source(digest: str, file: str, name: str) -> ConfFile:
    """A conf file of a snapshot, which never changes."""
    return read_conf((folder_of(digest) / file).read_bytes().decode(), name)


def pipeline_folder(run: Run) -> str:
    """Where its scripts and confs lie at its target: in a copy of its own, or in the lab's folder."""
    return run.snapshot.pipeline.folder if run.in_place else f"{run.work_dir}/{PIPELINE_FOLDER}"


def species_file(spec: PipelineSpec, label: str) -> str:
    """Name of a species' conf in the run's copy of the pipeline."""
    return spec.species_from.replace("*", label)
