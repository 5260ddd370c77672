"""The gates of an overlay: where they stand, and whether their protocols can do what is asked."""

from typing import Any

from gates import generic, policy
from gates.models import Gate
from gates.protocols import find_protocol, keys
from runs.evidence import command_faults
from runs.pipeline.outputs import is_checkable
from runs.pipeline.spec import GateSpec
from runs.pipeline.yamlfile import YamlFile

GENERIC = generic.Generic.key


def read_gates(overlay: YamlFile, per_species: dict[str, bool]) -> tuple[GateSpec, ...]:
    """The gates in the file's order; what is wrong is noted in `overlay`. `per_species` has the phases that are run."""
    if overlay.value is None:
        return ()
    raw_gates = overlay.value.get("gates", [])
    seen: set[str] = set()
    gates = []
    for i, raw in enumerate(raw_gates):
        if raw["key"] in seen:
            overlay.fault(f"two gates are called {raw['key']!r}", "gates", i, "key")
        seen.add(raw["key"])
        if (gate := _read_gate(overlay, i, raw, per_species)) is not None:
            gates.append(gate)
    return tuple(gates)


def _read_gate(overlay: YamlFile, i: int, raw: dict[str, Any], per_species: dict[str, bool]) -> GateSpec | None:
    if ("before" in raw) == ("after" in raw):
        overlay.fault(f"gate {raw['key']!r} must stand before a phase or after one", "gates", i)
        return None
    where = "before" if "before" in raw else "after"
    gate = GateSpec(
        key=raw["key"],
        protocol=raw["protocol"],
        phase=str(raw[where]),
        where=where,
        title=raw.get("title", raw["key"].replace("_", " ").capitalize()),
        options=raw.get("options", {}),
        policy=raw.get("policy", {}),
        files=raw.get("files", {}),
        send_back_to=str(raw.get("send_back_to", "")),
    )
    _check_places(overlay, i, gate, per_species)
    _check_protocol(overlay, i, gate)
    return gate


def _check_places(overlay: YamlFile, i: int, gate: GateSpec, per_species: dict[str, bool]) -> None:
    if gate.phase not in per_species:
        overlay.fault(
            f"gate {gate.key!r} stands {gate.where} phase {gate.phase!r}, which is not run", "gates", i, gate.where
        )
        return
    if gate.send_back_to and gate.send_back_to not in per_species:
        overlay.fault(f"gate {gate.key!r} sends back to phase {gate.send_back_to!r}, which is not run", "gates", i)
    if gate.files and gate.where == "before":
        overlay.fault(f"gate {gate.key!r} stands before its phase: it has no files to look at yet", "gates", i, "files")
    for name, pattern in gate.files.items():
        if not is_checkable(pattern):
            overlay.fault(f"{pattern!r} is not a pattern below the work folder", "gates", i, "files", name)


def _check_protocol(overlay: YamlFile, i: int, gate: GateSpec) -> None:
    row = Gate(protocol=gate.protocol, options=gate.options, policy=gate.policy, key=gate.key, title=gate.title)
    protocol = find_protocol(row)
    if protocol is None:
        installed = ", ".join(keys()) or "none"
        overlay.fault(f"no gate protocol {gate.protocol!r}; there are: {installed}", "gates", i, "protocol")
        return
    for name in getattr(protocol, "needs_files", ()):
        if name not in gate.files:
            overlay.fault(f"gate {gate.key!r}: {gate.protocol} needs the pattern of a file {name!r}", "gates", i)
    for message in protocol.faults(gate.options):
        overlay.fault(f"gate {gate.key!r}: {message}", "gates", i, "options")
    for message in _command_faults(gate):
        overlay.fault(f"gate {gate.key!r}: {message}", "gates", i, "options", "commands")
    for message in policy_faults(gate.policy, list(protocol.verdicts_at(row))):
        overlay.fault(f"gate {gate.key!r}: {message}", "gates", i, "policy")


def _command_faults(gate: GateSpec) -> list[str]:
    """What is wrong with the commands of a described gate; only where its options hold at all."""
    commands = gate.options.get("commands", [])
    return command_faults(commands, gate.files) if gate.protocol == GENERIC and not generic.faults(gate.options) else []


def policy_faults(given: dict[str, Any], verdicts: list[str]) -> list[str]:
    """What is wrong with a gate's policy, given the verdicts that there are."""
    found = policy.faults(given)
    if found:
        return found
    timeout = policy.Policy.read(given).on_timeout
    if timeout is not None and timeout.verdict not in verdicts:
        return [f"on_timeout says {timeout.verdict!r}; there are: block, {', '.join(verdicts)}"]
    return []
