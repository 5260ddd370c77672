"""Reads a pipeline's folder and says everything that is wrong with it before anything is started."""

import json
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobs.ordinary import open_ordinary
from record.shape import in_words, problems
from runs.conf.errors import ConfRefused
from runs.conf.files import read_conf
from runs.pipeline.faults import Fault, PipelineFaults
from runs.pipeline.gatespecs import read_gates
from runs.pipeline.graph import default_needs, default_order, find_cycle, find_groups, with_copies
from runs.pipeline.outputs import SERIES, fill_placeholders, is_checkable, variables_in
from runs.pipeline.spec import (
    SPECIES_LABEL,
    CheckSpec,
    ExcludeSpec,
    FieldSpec,
    GateSpec,
    HalvesSpec,
    PhaseSpec,
    PipelineSpec,
    PresetSpec,
)
from runs.pipeline.yamlfile import MAX_BYTES, YamlFile, read_yaml

MANIFEST = "scripts/manifest.yml"
OVERLAY = "scripts/conductor.yml"
SPECIES_TEMPLATE = "species.conf"
MAX_CONF_BYTES = 256 * 1024
HALVES_SCRIPT = "split_halves.slurm"  # what Conductor itself runs where a phase splits a list
OWN_NAMES = frozenset({"WORK_DIR", "SKILL_DIR", "SPECIES_CONF", "EXCLUDED_SERIES", "CONDUCTOR_PHASE", "PYTHON"})


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
        self.assigned: dict[str, set[str]] = {}
        self.conf_refused = False

    def load(self) -> PipelineSpec:
        if not self.folder.is_dir():
            raise PipelineFaults([Fault(str(self.folder), 0, "the pipeline's folder isn't there")])
        manifest = self._yaml(MANIFEST, "manifest.schema.json", required=True)
        overlay = self._yaml(OVERLAY, "conductor.schema.json", required=False)
        self._stop_at_faults()
        self.manifest, self.overlay = manifest, overlay
        self.extras: dict[str, Any] = overlay.value or {}
        self.added: dict[str, dict[str, Any]] = self.extras.get("adds", {})
        self.phases: dict[str, dict[str, Any]] = manifest.value["phases"] | self.added
        self._check_phase_keys()
        self._stop_at_faults()
        order, needs = self._order_and_needs()
        copies = {key: self._copies(key) for key in order}
        placed, needs = with_copies(order, needs, {key: list(each) for key, each in copies.items()})
        values = {name: given for each in copies.values() for name, given in each.items()}
        origin = {name: key for key, each in copies.items() for name in each}
        spec = PipelineSpec(
            title=self.extras.get("title") or self.folder.name,
            phases=tuple(self._phase(origin[key], key, needs[key], values[key]) for key in placed),
            gates=self._gates(order),
            fields=tuple(self._fields()),
            tilt_series=self._tilt_series(),
            defaults=self._conf("pipeline.conf"),
            species=self._species(),
            species_from="*".join(self._species_pattern()),
            species_template=self._species_template(),
            excludes=tuple(self._excludes()),
            groups=self._groups(),
        )
        if not self.conf_refused:  # else its names are not known, and each would be missed
            spec = self._with_presets(spec)
            self._check_variables(spec, origin)
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
            for problem in problems(file.value, _schema(schema)):
                file.fault(in_words(problem), *problem.absolute_path)
        self.files.append(file)
        return file

    def _conf(self, name: str) -> dict[str, str]:
        path = self.folder / name
        try:
            data = _read(path, MAX_CONF_BYTES)
            if len(data) > MAX_CONF_BYTES:
                self.faults.append(Fault(name, 0, f"larger than {MAX_CONF_BYTES} bytes: not a conf file"))
                return {}
            values = read_conf(data.decode(), name).templates
            self.assigned[name] = set(values)
            return values
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
        for key, raw in self.added.items():
            if key in self.manifest.value["phases"]:
                self.overlay.fault(f"phase {key!r} stands in the manifest already", "adds", key)
            if ("scripts" in raw) == ("halves" in raw):
                self.overlay.fault(f"phase {key!r} must have either scripts or halves", "adds", key)
            if "after" in raw:
                self._known(str(raw["after"]), "adds", key, "after")
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
        order = [str(key) for key in self.extras.get("order", [])] or self._default_order()
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

    def _default_order(self) -> list[str]:
        """The order of the manifest; a script of a phase in parts that none of its parts runs is a fault."""
        for key, parts in find_groups(self.phases).items():
            run = {name for part in parts for name in self._scripts_of(part)}
            for i, name in enumerate(self.phases[key].get("scripts", [])):
                if name not in run:
                    self._file_of(key).fault(
                        f"phase {key!r} is run in its parts ({', '.join(parts)}), and none of them runs {name!r}",
                        *self._path_of(key, "scripts", i),
                    )
        after = {key: str(raw.get("after", "")) for key, raw in self.added.items()}
        return default_order(list(self.manifest.value["phases"]), after)

    def _groups(self) -> dict[str, str]:
        return {key: self._extra(key).get("title") or self._title(key) for key in find_groups(self.phases)}

    def _extra(self, key: str) -> dict[str, Any]:
        extra: dict[str, Any] = self.extras.get("phases", {}).get(key, {})
        return extra

    def _title(self, key: str) -> str:
        return self.phases[key].get("description") or key

    def _file_of(self, key: str, name: str = "") -> YamlFile:
        """The file in which a phase's `name` stands."""
        return self.overlay if key in self.added or name in self._extra(key) else self.manifest

    def _path_of(self, key: str, *path: str | int) -> tuple[str | int, ...]:
        return ("adds" if key in self.added and path[0] not in self._extra(key) else "phases", key, *path)

    def _scripts_of(self, key: str) -> list[str]:
        return self._extra(key).get("scripts") or self.phases[key].get("scripts", [])

    def _outputs_of(self, key: str) -> list[str]:
        return self._extra(key).get("outputs") or self.phases[key].get("outputs", [])

    def _copies(self, key: str) -> dict[str, dict[str, str]]:
        """Key of each copy of a phase that is run several times side by side -> the values in which they differ."""
        given = self._extra(key).get("copies", [])
        copies = {f"{key}-{i}": _as_text(values) for i, values in enumerate(given, 1)} or {key: {}}
        for name in copies:
            if name != key and name in self.phases:
                self.overlay.fault(f"a copy would be called {name!r}, as another phase is", "phases", key, "copies")
        return copies

    def _phase(self, key: str, name: str, needs: list[str], values: dict[str, str]) -> PhaseSpec:
        raw = self.phases[key] | self._extra(key)
        for i, script in enumerate(self._scripts_of(key)):
            self._check_script(script, self._file_of(key, "scripts"), *self._path_of(key, "scripts", i))
        checks = self._checks(key, raw)
        tested = {check.of for check in checks}
        filled = {each: fill_placeholders(each, self.extras.get("placeholders", {})) for each in self._outputs_of(key)}
        self._check_outputs(key)
        exports, answers = self._exports(key, raw)
        copy = f" ({name.rpartition('-')[2]} of {len(self._extra(key)['copies'])})" if name != key else ""
        groups = find_groups(self.phases)
        return PhaseSpec(
            key=name,
            title=(self._extra(key).get("title") or self._title(key)) + copy,
            per_species=raw.get("requires_species", False) and not raw.get("joins", False),
            scripts=tuple(self._scripts_of(key)) or (HALVES_SCRIPT,),
            needs=tuple(needs),
            outputs=tuple(output for output in filled.values() if is_checkable(output)),
            unchecked=tuple(each for each, output in filled.items() if not is_checkable(output) and each not in tested),
            items=raw.get("items", ""),
            required_vars=tuple(raw.get("required_vars", [])),
            optional_vars=tuple(raw.get("optional_vars", [])),
            required_tools=() if self._in_environments(key, raw) else tuple(raw.get("required_tools", [])),
            environment_tools=tuple(raw.get("required_tools", [])) if self._in_environments(key, raw) else (),
            required_conda=tuple(raw.get("required_conda", [])),
            optional=raw.get("optional", False),
            gathers=raw.get("gathers", False),
            time_limit=raw.get("time_limit", ""),
            group=next((whole for whole, parts in groups.items() if key in parts), ""),
            copy_of=key if name != key else "",
            joins=raw.get("joins", False),
            in_place=raw.get("in_place", False),
            exports=exports | values,
            answers=answers,
            checks=checks,
            aside=tuple(raw.get("aside", [])),
            halves=HalvesSpec(**raw["halves"]) if "halves" in raw else None,
        )

    def _in_environments(self, key: str, raw: dict[str, Any]) -> bool:
        """Whether a phase's tools are those of conda environments, which its scripts activate."""
        return bool(raw.get("required_conda")) and "required_tools" not in self._extra(key)

    def _exports(self, key: str, raw: dict[str, Any]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        given = raw.get("exports", {})
        answers = {name: each for name, each in given.items() if isinstance(each, dict)}
        gates = {gate.get("key") for gate in self.extras.get("gates", [])}
        for name, each in answers.items():
            if each["gate"] not in gates:
                self.overlay.fault(f"{name}: there is no gate {each['gate']!r}", *self._path_of(key, "exports", name))
        return _as_text({name: each for name, each in given.items() if name not in answers}), answers

    def _checks(self, key: str, raw: dict[str, Any]) -> tuple[CheckSpec, ...]:
        """How outputs in prose are tested; each must name one that the phase has."""
        checks = []
        for i, each in enumerate(raw.get("checks", [])):
            path = self._path_of(key, "checks", i)
            if each["of"] not in self._outputs_of(key):
                self.overlay.fault(f"{each['of']!r} is not an output of phase {key!r}", *path, "of")
            for name in ("file", "newer_than"):
                if name in each and not is_checkable(each[name]):
                    self.overlay.fault(f"{each[name]!r} is not a pattern below the work folder", *path, name)
            if ("matches" in each) == ("newer_than" in each):
                self.overlay.fault("a check needs either matches or newer_than", *path)
            elif not _is_expression(each.get("matches", "")):
                self.overlay.fault(f"{each['matches']!r} is not a regular expression", *path, "matches")
            checks.append(CheckSpec(**each))
        return tuple(checks)

    def _check_outputs(self, key: str) -> None:
        """What the overlay itself gives must be patterns; what a manifest has in prose is not checked."""
        given = {"phases": self._extra(key), "adds": self.added.get(key, {})}
        for where, raw in given.items():
            for name in ("outputs", "aside"):
                for i, output in enumerate(raw.get(name, [])):
                    tested = {check["of"] for check in raw.get("checks", [])}
                    filled = fill_placeholders(output, self.extras.get("placeholders", {}))
                    if not is_checkable(filled) and output not in tested:
                        self.overlay.fault(f"{output!r} is not a pattern below the work folder", where, key, name, i)
            items = raw.get("items", SERIES)
            if SERIES not in items or not is_checkable(items):
                self.overlay.fault(f"{items!r} must be a pattern with {SERIES} in it", where, key, "items")
            for name, path in raw.get("halves", {}).items():
                if not is_checkable(path) or set(path) & set("*?["):
                    self.overlay.fault(f"{path!r} is not a path below the work folder", where, key, "halves", name)

    def _check_variables(self, spec: PipelineSpec, origin: dict[str, str]) -> None:
        """Variables that a phase requires, or names its outputs by, and that no conf file of the pipeline assigns."""
        shared = OWN_NAMES | self.assigned.get("pipeline.conf", set())
        of_species = set().union(
            *(names for name, names in self.assigned.items() if name != "pipeline.conf" and "/" not in name)
        )
        for phase in spec.phases:
            key = origin[phase.key]
            known = shared | {*phase.exports, *phase.answers, *phase.optional_vars}
            if phase.per_species or phase.joins:
                if not spec.species and spec.species_template is None:
                    continue  # species are added later, with confs of their own
                known = known | of_species | {"TM_LABEL"}
            named = [("required_vars", i, name) for i, name in enumerate(phase.required_vars)]
            filled = (fill_placeholders(each, self.extras.get("placeholders", {})) for each in self._outputs_of(key))
            named += [
                ("outputs", i, name)
                for i, output in enumerate(filled)
                if is_checkable(output)
                for name in variables_in(output)
            ]
            for where, i, name in named:
                if name not in known:
                    file, path = self._file_of(key, where), self._path_of(key, where, i)
                    file.fault(f"phase {key!r}: no conf file of this pipeline has a value {name}", *path)

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

    def _excludes(self) -> Iterable[ExcludeSpec]:
        for i, each in enumerate(self.extras.get("excludes", [])):
            files, to = each["files"], each["to"]
            if Path(files).name.count(SERIES) != 1 or not is_checkable(files) or set(files) & set("*?["):
                self.overlay.fault(f"{files!r} must be one file's path, with {SERIES} in its name", "excludes", i)
            if not is_checkable(to) or set(to) & set("*?[") or to.strip("/") == files.rpartition("/")[0]:
                self.overlay.fault(f"{to!r} must be another folder below the work folder", "excludes", i, "to")
            yield ExcludeSpec(files, to.rstrip("/"))

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


def _is_expression(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _as_text(values: dict[str, Any]) -> dict[str, str]:
    return {key: f"{value:g}" if isinstance(value, float) else str(value) for key, value in values.items()}


@lru_cache
def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / name).read_text())
    return found


def _read(path: Path, most_bytes: int) -> bytes:
    """A file's bytes; one more than `most_bytes` where there are more. Raises OSError."""
    with open_ordinary(str(path)) as handle:
        return handle.read(most_bytes + 1)
