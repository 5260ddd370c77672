"""The values that a run's scripts see: the snapshot's conf files with the run's own values over them."""

from record.errors import BadInput
from runs.conf import resolve_conf
from runs.models import Run, Species
from runs.pipeline.spec import PipelineSpec

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


def own_values(run: Run) -> dict[str, str]:
    """The values of pipeline.conf that are the run's own, its folder among them."""
    return run.conf | {"WORK_DIR": run.work_dir}


def own_species_values(spec: PipelineSpec, species: Species) -> dict[str, str]:
    """The values of a species conf that are the run's own; its label among them where it stems from the pattern."""
    label = {} if species.label in spec.species else {"TM_LABEL": species.label}
    return species.conf | label


def resolved_values(spec: PipelineSpec, run: Run, species: Species | None) -> dict[str, str]:
    """Name -> value as a script sees it once it has sourced its conf files."""
    layers = [spec.defaults, own_values(run)]
    if species is not None:
        layers += [species_defaults(spec, species.label), own_species_values(spec, species)]
    return resolve_conf(*layers)


def species_file(spec: PipelineSpec, label: str) -> str:
    """Name of a species' conf in the run's copy of the pipeline."""
    return spec.species_from.replace("*", label)
