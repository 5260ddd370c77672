"""How evidence about a phase is made: renderers, one after the other in one process, as a job in the run's folder."""

import re

from gates.models import Gate
from gates.protocols import Preparation
from jobs.services import Resources
from record.errors import BadInput
from runs.models import Phase
from runs.pipeline.outputs import expand, variables_in
from runs.pipeline.spec import spec_of
from runs.qc.__main__ import RENDERERS, SEVERAL, THEN
from runs.services.tools import evidence_target, python_on, tools_path
from runs.services.values import resolved_values

EVIDENCE_FOLDER = ".conductor/evidence"
TIME_LIMIT_S = 1800
MEMORY_MIB = 4096
_FILES = re.compile(r"\{([A-Za-z0-9_]+)\}")


def preparation(phase: Phase, gate: Gate, commands: list[list[str]]) -> Preparation:
    """The renderers' `commands` (subcommand and arguments) as one job in the run's folder.

    It runs on the run's target, a replay's on this machine. The renderers share one Python, whose start
    takes longer than drawing a small picture does.
    """
    run, target = phase.run, evidence_target(phase.run)
    first, *others = commands
    words = [*first, *(word for command in others for word in (THEN, *command))]
    return Preparation(
        commands=[[python_on(target), "-m", "runs.qc", *([SEVERAL] if others else []), *words]],
        target=target,
        work_dir=run.work_dir,
        out_dir=f"{run.work_dir}/{EVIDENCE_FOLDER}/{gate.uuid}",
        environment={"PYTHONPATH": tools_path(run, target)},
        resources=Resources(
            time_limit_s=min(TIME_LIMIT_S, target.max_time_limit_s),
            memory_mib=min(MEMORY_MIB, target.max_memory_mib),
            cpus=1,
        ),
    )


def files_of(phase: Phase, gate: Gate, name: str) -> dict[str, str]:
    """series (or empty) -> absolute path of what the phase's verification found for that file pattern of the gate."""
    found = phase.files.get(gate.key, {}).get(name, {})
    return {series: f"{phase.run.work_dir}/{path}" for series, path in sorted(found.items())}


def needed_files(phase: Phase, gate: Gate, name: str) -> dict[str, str]:
    """As `files_of`; BadInput where there is none."""
    found = files_of(phase, gate, name)
    if not found:
        pattern = spec_of(phase.run.snapshot).gate(gate.key).files.get(name, name)
        raise BadInput(f"There is nothing to show: no file {pattern} was found when the phase had ended.")
    return found


def filled(phase: Phase, gate: Gate, commands: list[list[str]]) -> list[list[str]]:
    """Commands as a pipeline writes them, with `{name}` (all files of that name) and `${NAME}` (a value) put in.

    BadInput where there are no such files, or a value is not set or can't stand in a command.
    """
    values = resolved_values(spec_of(phase.run.snapshot), phase.run, phase.species)
    return [[part for word in command for part in _filled(phase, gate, values, word)] for command in commands]


def command_faults(commands: list[list[str]], files: dict[str, str]) -> list[str]:
    """What is wrong with a gate's commands, given its `files`, in words: checked before a run begins."""
    found = []
    for name, *arguments in commands:
        if name not in RENDERERS:
            found.append(f"no renderer {name!r}; there are: {', '.join(RENDERERS)}")
        for word in arguments:
            asked = _FILES.fullmatch(word)
            if asked and asked[1] not in files:
                found.append(f"{name}: no pattern of a file {asked[1]!r} is given under `files`")
            if word in (THEN, "--out") or word.startswith("--out="):
                found.append(f"{name}: leave {word!r} out; each command has a folder of its own")
    return found


def _filled(phase: Phase, gate: Gate, values: dict[str, str], word: str) -> list[str]:
    if asked := _FILES.fullmatch(word):
        return list(needed_files(phase, gate, asked[1]).values())
    text = expand(word, values) if variables_in(word) else word
    if text is None:
        raise BadInput(f"{word} can't be filled in: the value is not set, or can't stand in a command.")
    return [text]
