"""Reads a pipeline's folder and says everything that is wrong with it before anything is started."""

import json
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from jobs.ordinary import open_ordinary
from runs.conf.errors import ConfRefused
from runs.conf.files import read_conf
from runs.pipeline.faults import Fault, PipelineFaults
from runs.pipeline.gatespecs import read_gates
from runs.pipeline.graph import default_needs, default_order, find_cycle
from runs.pipeline.outputs import SERIES, is_checkable
from runs.pipeline.spec import FieldSpec, GateSpec, PhaseSpec, PipelineSpec, PresetSpec
from runs.pipeline.yamlfile import MAX_BYTES, YamlFile, read_yaml

MANIFEST = "scripts/manifest.yml"
OVERLAY = "scripts/conductor.yml"
SPECIES_TEMPLATE = "species.conf"
SPECIES_LABEL = re.compile(r"^[A-Za-z0-9_]{1,32}\Z")
MAX_CONF_BYTES = 256 * 1024


def load_pipeline(folder: str | os.PathLike[str]) -> PipelineSpec:
    """The pipeline in `folder`, checked; PipelineFaults with the file and line of everything that is wrong.

    The folder holds `scripts/manifest.yml`, the scripts beside it, `pipeline.conf`, a conf for each species, and
    optionally the overlay `scripts/conductor.yml`.
    """
    return _Loader(Path(folder)).load()


class _Loader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[Fault] = []
        self.files: list[YamlFile] = []
        self.conf_refused = False

    def load(self) -> PipelineSpec:
        if not self.folder.is_dir():
            raise PipelineFaults([Fault(str(self.folder), 0, "the pipeline's folder isn't there")])
        manifest = self._yaml(MANIFEST, "manifest.schema.json", required=True)
        overlay = self._yaml(OVERLAY, "conductor.schema.json", required=False)
        self._stop_at_faults()
        self.manifest, self.overlay = manifest, overlay
        self.phases: dict[str, dict[str, Any]] = manifest.value["phases"]
        self.extras: dict[str, Any] = overlay.value or {}
        self._check_phase_keys()
        self._stop_at_faults()
        order, needs = self._order_and_needs()
        spec = PipelineSpec(
            title=self.extras.get("title") or self.folder.name,
            phases=tuple(self._phase(key, needs[key]) for key in order),
            gates=self._gates(order),
            fields=tuple(self._fields()),
            tilt_series=self._tilt_series(),
            defaults=self._conf("pipeline.conf"),
            species=self._species(),
            species_from="*".join(self._species_pattern()),
            species_template=self._species_template(),
        )
        if not self.conf_refused:  # else its names are not known, and each would be missed
            spec = self._with_presets(spec)
            self._check_values(spec)
        self._stop_at_faults()
        return spec

    def _stop_at_faults(self) -> None:
        faults = [*self.faults, *(fault for file in self.files for fault in file.faults)]
        if faults:
            raise PipelineFaults(faults)

    # Files

    def _yaml(self, name: str, schema: str, *, required: bool) -> YamlFile:
        path = self.folder / name
        try:
            data = _read(path, MAX_BYTES)
        except FileNotFoundError:
            if required:
                self.faults.append(Fault(name, 0, "the file isn't there"))
            return YamlFile(name)
        except OSError as error:
            self.faults.append(Fault(name, 0, f"can't be read: {error.strerror}"))
            return YamlFile(name)
        file = read_yaml(name, data)
        if file.value is not None:
            for problem in _validator(schema).iter_errors(file.value):
                file.fault(_in_words(problem), *problem.absolute_path)
        self.files.append(file)
        return file

    def _conf(self, name: str) -> dict[str, str]:
        path = self.folder / name
        try:
            data = _read(path, MAX_CONF_BYTES)
            if len(data) > MAX_CONF_BYTES:
                self.faults.append(Fault(name, 0, f"larger than {MAX_CONF_BYTES} bytes: not a conf file"))
                return {}
            return read_conf(data.decode(), name).templates
        except ConfRefused as refused:
            self.faults += [Fault(each.file, each.line, each.message) for each in refused.faults]
            self.conf_refused = True
        except FileNotFoundError:
            self.faults.append(Fault(name, 0, "the file isn't there"))
        except (OSError, UnicodeDecodeError) as error:
            self.faults.append(Fault(name, 0, f"can't be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}"))
        return {}

    # Phases

    def _check_phase_keys(self) -> None:
        for key in self.extras.get("phases", {}):
            self._known(key, "phases", key)
        for i, key in enumerate(self.extras.get("order", [])):
            self._known(str(key), "order", i)
        for key, needed in self.extras.get("needs", {}).items():
            self._known(key, "needs", key)
            for i, other in enumerate(needed):
                self._known(str(other), "needs", key, i)

    def _known(self, key: str, *path: str | int) -> None:
        if key not in self.phases:
            self.overlay.fault(f"no phase {key!r} in the manifest", *path)

    def _order_and_needs(self) -> tuple[list[str], dict[str, list[str]]]:
        scripts = {key: self._scripts_of(key) for key in self.phases}
        order = [str(key) for key in self.extras.get("order", [])] or default_order(scripts)
        for i, key in enumerate(order):
            if key in order[:i]:
                self.overlay.fault(f"phase {key!r} stands in the order twice", "order", i)
        needs = default_needs(order)
        for key, given in self.extras.get("needs", {}).items():
            if key not in order:
                self.overlay.fault(f"phase {key!r} is not in the order", "needs", key)
            needs[key] = [str(other) for other in given]
            for i, other in enumerate(needs[key]):
                if other not in order:
                    self.overlay.fault(f"phase {other!r} is not in the order", "needs", key, i)
        if cycle := find_cycle(needs):
            self.overlay.fault(f"these phases wait for one another: {' -> '.join(cycle)}", "needs", cycle[0])
        return order, needs

    def _scripts_of(self, key: str) -> list[str]:
        return self.extras.get("phases", {}).get(key, {}).get("scripts") or self.phases[key]["scripts"]

    def _phase(self, key: str, needs: list[str]) -> PhaseSpec:
        raw, extra = self.phases[key], self.extras.get("phases", {}).get(key, {})
        outputs = extra.get("outputs") or raw.get("outputs", [])
        file, path = (self.overlay, ("phases", key)) if "scripts" in extra else (self.manifest, ("phases", key))
        for i, name in enumerate(self._scripts_of(key)):
            self._check_script(name, file, *path, "scripts", i)
        self._check_outputs(key, extra)
        return PhaseSpec(
            key=key,
            title=extra.get("title") or raw.get("description") or key,
            per_species=raw.get("requires_species", False),
            scripts=tuple(self._scripts_of(key)),
            needs=tuple(needs),
            outputs=tuple(output for output in outputs if is_checkable(output)),
            unchecked=tuple(output for output in outputs if not is_checkable(output)),
            items=extra.get("items", ""),
            required_vars=tuple(raw.get("required_vars", [])),
            optional_vars=tuple(raw.get("optional_vars", [])),
            required_tools=tuple(extra.get("required_tools", raw.get("required_tools", []))),
            optional=extra.get("optional", raw.get("optional", False)),
            gathers=extra.get("gathers", False),
            time_limit=extra.get("time_limit", ""),
        )

    def _check_outputs(self, key: str, extra: dict[str, Any]) -> None:
        for i, output in enumerate(extra.get("outputs", [])):
            if not is_checkable(output):
                self.overlay.fault(f"{output!r} is not a pattern below the work folder", "phases", key, "outputs", i)
        items = extra.get("items", SERIES)
        if SERIES not in items or not is_checkable(items):
            self.overlay.fault(f"{items!r} must be a pattern with {SERIES} in it", "phases", key, "items")

    def _check_script(self, name: str, file: YamlFile, *path: str | int) -> None:
        scripts = self.folder / "scripts"
        script = scripts / name
        if name.startswith("/") or ".." in Path(name).parts:
            file.fault(f"script {name!r} lies outside the pipeline's folder", *path)
        elif not script.is_file():
            file.fault(f"script {name!r} isn't there", *path)
        elif not script.resolve().is_relative_to(self.folder.resolve()):
            file.fault(f"script {name!r} leads out of the pipeline's folder", *path)

    def _tilt_series(self) -> str:
        pattern = self.extras.get("tilt_series", "")
        if pattern and not (is_checkable(pattern) and pattern.count("*") == 1 and "*" in Path(pattern).name):
            self.overlay.fault(
                f"{pattern!r} must be one pattern below the work folder whose * is the name", "tilt_series"
            )
        return pattern or "tomostar/*.tomostar"

    # Gates

    def _gates(self, order: list[str]) -> tuple[GateSpec, ...]:
        per_species = {key: self.phases[key].get("requires_species", False) for key in order}
        return read_gates(self.overlay, per_species)

    # Values

    def _fields(self) -> Iterable[FieldSpec]:
        for key, raw in self.extras.get("conf", {}).items():
            if raw["kind"] == "choice" and not raw.get("choices"):
                self.overlay.fault(f"{key} is a choice without choices", "conf", key)
            if raw.get("min", float("-inf")) > raw.get("max", float("inf")):
                self.overlay.fault(f"{key}: min {raw['min']:g} is above max {raw['max']:g}", "conf", key, "min")
            yield FieldSpec(key=key, **raw | {"choices": tuple(str(each) for each in raw.get("choices", []))})

    def _species(self) -> dict[str, dict[str, str]]:
        start, end = self._species_pattern()
        found: dict[str, dict[str, str]] = {}
        for path in sorted(self.folder.glob(f"{start}*{end}")):
            label = path.name[len(start) : len(path.name) - len(end) if end else None]
            if not SPECIES_LABEL.match(label):
                self.faults.append(Fault(path.name, 0, f"{label!r} can't be a species: use 1 to 32 of A-Z a-z 0-9 _"))
                continue
            found[label] = self._conf(path.name)
        return found

    def _species_template(self) -> dict[str, str] | None:
        return self._conf(SPECIES_TEMPLATE) if (self.folder / SPECIES_TEMPLATE).exists() else None

    def _with_presets(self, spec: PipelineSpec) -> PipelineSpec:
        presets = [self._preset(key, raw, spec) for key, raw in self.extras.get("presets", {}).items()]
        return PipelineSpec(**{**_shallow(spec), "presets": tuple(presets)})

    def _preset(self, key: str, raw: dict[str, Any], spec: PipelineSpec) -> PresetSpec:
        conf, species = self._values_from(raw["from"], spec) if "from" in raw else ({}, {})
        conf |= _as_text(raw.get("conf", {}))
        for label, values in raw.get("species", {}).items():
            species[label] = species.get(label, {}) | _as_text(values)
        for name in conf:
            if name not in spec.defaults:
                self.overlay.fault(f"{name} is not a value of pipeline.conf", "presets", key, "conf", name)
        for label, values in species.items():
            self._check_preset_species(key, label, values, spec)
        return PresetSpec(key, raw.get("title", key), conf, species)

    def _values_from(self, name: str, spec: PipelineSpec) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        """The values of a folder with a pipeline.conf and species confs of its own; each may be left out."""
        folder = self.folder / name
        if not folder.is_dir():
            self.overlay.fault(f"the folder {name!r} isn't there", "presets")
            return {}, {}
        conf = self._conf(f"{name}/pipeline.conf") if (folder / "pipeline.conf").exists() else {}
        start, end = self._species_pattern()
        files = {label: f"{name}/{start}{label}{end}" for label in spec.species}
        return conf, {label: self._conf(file) for label, file in files.items() if (self.folder / file).exists()}

    def _check_preset_species(self, key: str, label: str, values: dict[str, str], spec: PipelineSpec) -> None:
        if label not in spec.species:
            self.overlay.fault(f"no species {label!r} in this pipeline", "presets", key, "species", label)
            return
        for name in values:
            if name not in spec.species[label]:
                self.overlay.fault(f"{name} is not a value of species {label}", "presets", key, "species", label, name)

    def _species_pattern(self) -> tuple[str, str]:
        start, end = self.extras.get("species", {}).get("from", "species_*.conf").split("*")
        return start, end

    def _check_values(self, spec: PipelineSpec) -> None:
        known = set(spec.defaults).union(*spec.species.values(), spec.species_template or {})
        for each in spec.fields:
            if each.key not in known:
                self.overlay.fault(f"{each.key} stands in no conf file of this pipeline", "conf", each.key)


def _shallow(spec: PipelineSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


def _as_text(values: dict[str, Any]) -> dict[str, str]:
    return {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in values.items()}


@lru_cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((Path(__file__).parent / schema).read_text()))


def _in_words(problem: ValidationError) -> str:
    where = ".".join(str(part) for part in problem.absolute_path)
    message = problem.message if len(problem.message) < 300 else f"{problem.message[:300]} ..."
    return f"{where}: {message}" if where else message


def _read(path: Path, most_bytes: int) -> bytes:
    """A file's bytes; one more than `most_bytes` where there are more. Raises OSError."""
    with open_ordinary(str(path)) as handle:
        return handle.read(most_bytes + 1)
