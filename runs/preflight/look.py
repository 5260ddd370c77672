"""Looks at a run's target: folders, space, conda environments, tools, the fork of WARP, partitions. Reads only."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from jobs.environment import after_lines
from jobs.executors.slurm.client import Slurm
from jobs.models import Target, TargetKind
from jobs.parse import sbatch_options
from jobs.shells import SYSTEM_PATH, Completed, Shell, cluster_of, environment_of, shell_for
from record.errors import AdapterError, ConductorError
from runs.conf.placeholders import is_placeholder
from runs.models import Run
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.preflight.findings import BLOCKS, MISSING, OK, UNKNOWN, Finding
from runs.preflight.tools import (
    FORK_MARK,
    HOMES,
    Home,
    conda_lines,
    environments_of,
    lookups,
    missing_partitions,
    version_in,
    wanted_environments,
    wanted_tools,
    within_environment,
)
from runs.services.steps import script_text
from runs.services.values import resolved_values

CALL_TIMEOUT_S = 30
LEAST_FREE_GIB = 5
NO_LINES = ":"  # so that what is missing is told by the shell
_NO_CONDA = re.compile(r"conda: (command )?not found")
KIB_A_GIB = 1024**2
_NEAREST = 'p="$1"; while [ ! -e "$p" ]; do p=$(dirname "$p"); done; '
_TRY_FOLDER = _NEAREST + '[ -d "$p" ] && [ -w "$p" ] && [ -x "$p" ] && df -Pk "$p" | tail -n 1'


@dataclass(frozen=True)
class Look:
    """What a look needs to know. `values` are those that scripts see, of all confs."""

    run: Run
    spec: PipelineSpec
    target: Target
    shell: Shell
    values: Mapping[str, str]

    @property
    def known(self) -> dict[str, str]:
        """The values, without those that still hold what an example put there."""
        return {name: value for name, value in self.values.items() if not is_placeholder(value)}

    def call(self, argv: list[str]) -> Completed:
        """A command as a job would run it: after the target's environment lines. AdapterError where it can't be."""
        lines = [self.target.environment_lines.strip() or NO_LINES, conda_lines(self.known)]
        return self.shell.run(
            after_lines("\n".join(line for line in lines if line), argv),
            env=environment_of(self.target),
            cwd="/",
            timeout_s=CALL_TIMEOUT_S,
        )


def look_at_target(run: Run) -> list[Finding]:
    """Everything that the run's phases need there, looked at now; one thing that can't be looked at hides no other."""
    spec = spec_of(run.snapshot)
    values = dict(resolved_values(spec, run, None))
    for species in run.species.taking_part():
        values = {**resolved_values(spec, run, species), **values}
    look = Look(run, spec, run.target, shell_for(run.target), values)
    findings = [*_folder(look), *_environments(look)]
    shut = frozenset(each.key for each in findings if each.status in (BLOCKS, MISSING))
    findings += [_tried(tool, tool, partial(_tool, look, tool, shut)) for tool in wanted_tools(spec)]
    warp = next((each for each in findings if each.key == "WarpTools" and each.status == OK), None)
    if warp is not None:
        findings.append(_tried("warp_fork", "WARP's fork", partial(_fork, look, warp.found)))
    if run.target.kind == TargetKind.SLURM and not run.replay:
        findings.append(_tried("partitions", "Partitions", partial(_partitions, look)))
    return findings


def _tried(key: str, label: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except AdapterError as error:
        return Finding(key, label, UNKNOWN, f"It could not be looked at: {error.message}", "Look again.")
    except ConductorError as error:
        return Finding(key, label, UNKNOWN, error.message)


def _folder(look: Look) -> Iterator[Finding]:
    folder = look.run.work_dir
    argv = ["/bin/bash", "-c", _TRY_FOLDER, "try", folder]
    try:
        done = look.shell.run(argv, env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}, cwd="/", timeout_s=CALL_TIMEOUT_S)
    except AdapterError as error:
        yield Finding("work_dir", "Work folder", UNKNOWN, error.message, "Look again.")
        return
    if done.returncode:
        remedy = "Give the account that runs jobs the right to write there, or begin the run in another folder."
        yield Finding("work_dir", "Work folder", BLOCKS, f"{folder} can't be written.", remedy)
        return
    yield Finding("work_dir", "Work folder", OK, f"{folder} can be written.", found=folder)
    fields = done.stdout.split()
    if len(fields) < 4 or not fields[-3].isdigit():
        yield Finding("space", "Free space", UNKNOWN, "df does not say how much is free.")
        return
    free_gib = int(fields[-3]) / KIB_A_GIB
    enough = free_gib >= LEAST_FREE_GIB
    message = f"{free_gib:.1f} GiB are free."
    remedy = "" if enough else f"Tomograms need more: free at least {LEAST_FREE_GIB} GiB."
    yield Finding("space", "Free space", OK if enough else MISSING, message, remedy, found=f"{free_gib:.1f} GiB")


def _environments(look: Look) -> list[Finding]:
    return [_tried(name, name, partial(_environment, look, name)) for name in wanted_environments(look.spec)]


def _environment(look: Look, name: str) -> Finding:
    value = look.values.get(name, "")
    if not value or is_placeholder(value):
        return Finding(name, name, MISSING, f"{name} does not say which conda environment to use.", asks=name)
    done = look.call(within_environment(value, ["python", "--version"]))
    if done.returncode == 0:
        version = version_in(done.stdout + done.stderr)
        return Finding(name, name, OK, f"The conda environment {value} is there.", found=value, version=version)
    if _NO_CONDA.search(done.stderr):
        remedy = "Have the target's environment lines make conda known (source its etc/profile.d/conda.sh)."
        return Finding(name, name, BLOCKS, f"conda is not found on target {look.target.name}.", remedy, name)
    said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    remedy = f"Make the environment {value}, or name another one in {name}."
    return Finding(name, name, BLOCKS, f"The conda environment {value} can't be used: {said}", remedy, name)


def _tool(look: Look, tool: str, shut: frozenset[str]) -> Finding:
    """Where a tool is; `shut` are names of the environments that can't be used, where it may yet be."""
    home = HOMES.get(tool)
    asks = home.asks if home else ""
    environments = [home.environment] if home else environments_of(look.spec, tool)
    commands = lookups(tool, look.known, environments)
    for command in commands:
        done = look.call(command)
        path = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
        if done.returncode == 0 and path:
            inside = command[: command.index("/bin/bash")] if command[0] == "conda" else []
            version = _version(look, [*inside, path])
            return Finding(tool, tool, OK, f"{tool} is there.", asks=asks, found=path, version=version)
    if closed := next((name for name in environments if name in shut), ""):
        return Finding(tool, tool, UNKNOWN, f"It may be in the environment {closed}, which can't be used yet.")
    where = f" by {asks}" if asks and commands else ""
    remedy = _remedy(home, environments)
    return Finding(tool, tool, MISSING, f"{tool} is not found{where} on target {look.target.name}.", remedy, asks)


def _remedy(home: Home | None, environments: list[str]) -> str:
    if home is None and environments:
        return f"Install it in the environment that {environments[0]} names, or have the target's lines make it known."
    if home is None:
        return "Have the target's environment lines make it known."
    if home.asks == home.environment:
        return f"Install it there, or name in {home.asks} an environment that has it."
    return f"Say in {home.asks} where it is."


def _version(look: Look, argv: list[str]) -> str:
    """What a tool says of its version; one that won't say is there all the same."""
    try:
        done = look.call([*argv, "--version"])
    except AdapterError:
        return ""
    return version_in(done.stdout + done.stderr)


def _fork(look: Look, path: str) -> Finding:
    done = look.call([path, "ts_export_particles", "--help"])
    if FORK_MARK in done.stdout + done.stderr:
        return Finding("warp_fork", "WARP's fork", OK, f"ts_export_particles knows {FORK_MARK}.", found=path)
    return Finding(
        "warp_fork",
        "WARP's fork",
        BLOCKS,
        f"{path} is not the fork of WARP that OPUS-ET needs: its ts_export_particles does not know {FORK_MARK}.",
        "Install that fork, and name its folder in WARP_DIR.",
        "WARP_DIR",
    )


def _partitions(look: Look) -> Finding:
    cluster = cluster_of(look.target)
    there = [line.split()[0] for line in Slurm(look.shell, cluster.site()).partitions()]
    wanted = cluster.partition.split(",") if cluster.partition else _asked_by_scripts(look)
    names = ", ".join(there[:20]) or "none"
    if lost := missing_partitions([name for name in wanted if name], there):
        remedy = f"Name one of these in the target's settings or in the scripts: {names}."
        message = f"The cluster has no partition {', '.join(lost)}."
        return Finding("partitions", "Partitions", BLOCKS, message, remedy, found=",".join(there))
    return Finding("partitions", "Partitions", OK, f"The cluster has: {names}.", found=",".join(there))


def _asked_by_scripts(look: Look) -> list[str]:
    scripts = {name: phase for phase in look.spec.phases for name in phase.scripts}
    texts = [script_text(look.run, phase, name) for name, phase in scripts.items()]
    asked = [sbatch_options(text).get("partition", "") for text in texts]
    return [name for text in asked for name in text.split(",")]
