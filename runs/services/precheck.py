"""The check before a phase starts: values, scripts and tools, before anything is submitted. Reads only."""

import shlex

from jobs.shells import SYSTEM_PATH, Shell, shell_for, within_roots
from record.errors import BadInput
from runs.models import Phase, Run
from runs.pipeline.spec import PhaseSpec, PipelineSpec
from runs.services.steps import script_text, step_resources
from runs.services.values import resolved_values, species_file

TOOL_TIMEOUT_S = 30


def check_before_start(phase: Phase, spec: PipelineSpec) -> list[str]:
    """Why the phase can't be started, in words; an empty list where it can."""
    run, phase_spec = phase.run, spec.by_key[phase.key]
    shell = shell_for(run.target)
    work_dir = within_roots(run.target, run.work_dir)
    values = resolved_values(spec, run, phase.species)
    problems = [
        f"{name} has no value: set it in {_where(spec, phase, name)}"
        for name in phase_spec.required_vars
        if not values.get(name)
    ]
    problems += _script_problems(run, phase_spec)
    if not problems:
        problems += _tool_problems(shell, run, phase_spec, values, work_dir)
    return problems


def _where(spec: PipelineSpec, phase: Phase, name: str) -> str:
    if phase.species is None or name in spec.defaults:
        return "pipeline.conf"
    return species_file(spec, phase.species.label)


def _script_problems(run: Run, spec: PhaseSpec) -> list[str]:
    problems = []
    for name in spec.scripts:
        try:
            step_resources(run, spec, script_text(run, name))
        except OSError as error:
            problems.append(f"script {name} of the snapshot can't be read: {error.strerror}")
        except BadInput as error:
            problems.append(f"script {name}: {error.message}")
    return problems


def _tool_problems(shell: Shell, run: Run, spec: PhaseSpec, values: dict[str, str], work_dir: str) -> list[str]:
    """Which of the tools that the phase requires aren't found on the target after its environment lines."""
    if not spec.required_tools:
        return []
    checks = "\n".join(
        f"command -v {shlex.quote(tool)} >/dev/null 2>&1 || echo {shlex.quote(tool)}" for tool in spec.required_tools
    )
    done = shell.run(
        ["bash", "-c", f"{run.target.environment_lines}\n{checks}\nexit 0"],
        env={"PATH": SYSTEM_PATH, "HOME": work_dir},
        cwd=work_dir,
        timeout_s=TOOL_TIMEOUT_S,
    )
    if done.returncode:
        return [f"the environment lines of target {run.target.name} fail: {done.stderr.strip()[-300:]}"]
    missing = [tool for tool in spec.required_tools if tool in done.stdout.split()]
    return [f"{tool} is not found on target {run.target.name}: see its environment lines" for tool in missing]
