"""A pipeline as it was checked: what the engine, the forms and the gates read. Plain data, without files or rows."""

import re
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any

SPECIES_LABEL = re.compile(r"^[A-Za-z0-9_]{1,32}\Z")


@dataclass(frozen=True)
class CheckSpec:
    """How an output in prose is tested, by `file`, a pattern: what must stand in it, or what it must be newer than."""

    of: str
    file: str
    matches: str = ""
    newer_than: str = ""


@dataclass(frozen=True)
class ExcludeSpec:
    """Where the file of a tilt series that is left out lies meanwhile: `files` has TS_XXX, `to` is a folder."""

    files: str
    to: str


@dataclass(frozen=True)
class HalvesSpec:
    """A list of particles to be split at random, and the two lists that come of it: paths below the work folder."""

    of: str
    first: str
    second: str


@dataclass(frozen=True)
class PhaseSpec:
    """One phase. `needs` are keys of phases; `outputs` are patterns relative to the work folder.

    An output with TS_XXX is one for each tilt series. `unchecked` are outputs in prose, which nothing can look for;
    `checks` test others that are written in prose. `items` is the pattern that tells how many series are done, where it
    is not all of the outputs with TS_XXX. `group` is the phase that it is a part of, `copy_of` the one of
    which it is run several times side by side. `exports` are values of its
    scripts' environment alone, `answers` those that a gate's decision gives: name -> {"gate", "answer"}. One that
    `joins` is run once for all species, and is told the conf of the first. One that works `in_place` writes over what
    earlier ones made, so that its outputs don't prove that it was run. `aside` are patterns of what its start makes out
    of date. `halves` is what Conductor does itself in place of a script.
    """

    key: str
    title: str
    per_species: bool
    scripts: tuple[str, ...]
    needs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    items: str = ""
    required_vars: tuple[str, ...] = ()
    optional_vars: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    environment_tools: tuple[str, ...] = ()  # those that come of its conda environments, which its scripts activate
    required_conda: tuple[str, ...] = ()  # names of the values that name conda environments
    optional: bool = False
    gathers: bool = False
    time_limit: str = ""
    group: str = ""
    copy_of: str = ""
    joins: bool = False
    in_place: bool = False
    exports: dict[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, str]] = field(default_factory=dict)
    checks: tuple[CheckSpec, ...] = ()
    aside: tuple[str, ...] = ()
    halves: HalvesSpec | None = None

    @property
    def per_series(self) -> bool:
        """Whether its outputs are one for each tilt series."""
        patterns = [*self.outputs, *(check.file for check in self.checks)]
        return bool(self.items) or any("TS_XXX" in pattern for pattern in patterns)


@dataclass(frozen=True)
class GateSpec:
    """A gate, and where it stands. `files` are named patterns that its protocol looks at."""

    key: str
    protocol: str
    phase: str
    where: str  # "before" or "after"
    title: str
    options: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    send_back_to: str = ""


@dataclass(frozen=True)
class FieldSpec:
    """A value that a run may set: of pipeline.conf, or of each species' conf."""

    key: str
    label: str
    kind: str  # number, text, choice or path
    unit: str = ""
    min: float | None = None
    max: float | None = None
    whole: bool = False
    choices: tuple[str, ...] = ()
    help: str = ""
    species: bool = False


@dataclass(frozen=True)
class PresetSpec:
    """Values that go together: of pipeline.conf, and of each species' conf by its label."""

    key: str
    title: str
    conf: dict[str, str] = field(default_factory=dict)
    species: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PipelineSpec:
    """A whole pipeline. `phases` stand in the order in which they are shown and run."""

    title: str
    phases: tuple[PhaseSpec, ...]
    gates: tuple[GateSpec, ...] = ()
    fields: tuple[FieldSpec, ...] = ()
    presets: tuple[PresetSpec, ...] = ()
    tilt_series: str = ""
    defaults: dict[str, str] = field(default_factory=dict)  # pipeline.conf as it is
    species: dict[str, dict[str, str]] = field(default_factory=dict)  # label -> its conf as it is
    species_from: str = "species_*.conf"  # how their files are called; * is the label
    species_template: dict[str, str] | None = None  # species.conf, for labels without a conf of their own
    excludes: tuple[ExcludeSpec, ...] = ()
    groups: dict[str, str] = field(default_factory=dict)  # key -> title of phases that are run in parts

    @cached_property
    def by_key(self) -> dict[str, PhaseSpec]:
        return {phase.key: phase for phase in self.phases}

    @cached_property
    def field_by_key(self) -> dict[str, FieldSpec]:
        return {each.key: each for each in self.fields}

    def preset(self, key: str) -> PresetSpec | None:
        return next((each for each in self.presets if each.key == key), None)

    def gates_at(self, phase_key: str, where: str) -> list[GateSpec]:
        """The gates before or after a phase, in the order in which they are asked."""
        return [gate for gate in self.gates if gate.phase == phase_key and gate.where == where]

    def gate(self, key: str) -> GateSpec:
        """The gate called `key`; KeyError where there is none."""
        return next(gate for gate in self.gates if gate.key == key)

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON values; `from_json` makes it again."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "PipelineSpec":
        return cls(
            title=data["title"],
            phases=tuple(_phase(each) for each in data["phases"]),
            gates=tuple(GateSpec(**each) for each in data["gates"]),
            fields=tuple(FieldSpec(**_tuples(each)) for each in data["fields"]),
            presets=tuple(PresetSpec(**each) for each in data["presets"]),
            tilt_series=data["tilt_series"],
            defaults=data["defaults"],
            species=dict(sorted(data["species"].items())),  # PostgreSQL keeps JSON, but not the order of its keys
            species_from=data["species_from"],
            species_template=data["species_template"],
            excludes=tuple(ExcludeSpec(**each) for each in data.get("excludes", [])),
            groups=data.get("groups", {}),
        )


def _phase(data: dict[str, Any]) -> PhaseSpec:
    checks = tuple(CheckSpec(**each) for each in data.get("checks", []))
    halves = HalvesSpec(**data["halves"]) if data.get("halves") else None
    return PhaseSpec(**_tuples(data) | {"checks": checks, "halves": halves})


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}


@lru_cache(maxsize=64)
def _of_digest(snapshot_id: int, digest: str) -> PipelineSpec:
    from runs.models import Snapshot

    return PipelineSpec.from_json(Snapshot.objects.values_list("spec", flat=True).get(pk=snapshot_id, digest=digest))


def spec_of(snapshot: Any) -> PipelineSpec:
    """The spec of a snapshot row. A snapshot never changes, so its spec is parsed once a process."""
    return _of_digest(snapshot.pk, snapshot.digest)
