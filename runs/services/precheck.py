"""The check before a phase starts: values, scripts and tools, before anything is submitted. Reads only."""

from jobs.environment import after_lines
from jobs.shells import environment_of, shell_for, within_roots
from record.errors import BadInput
from runs.models import Phase, Run
from runs.pipeline.spec import PhaseSpec, PipelineSpec
from runs.services.conf_checks import phase_faults
from runs.services.exports import exported_values, species_for, values_for
from runs.services.steps import script_text, step_resources
from runs.services.values import species_file

TOOL_TIMEOUT_S = 30
LIST_MISSING = 'for tool in "$@"; do command -v -- "$tool" >/dev/null || echo "$tool"; done'


def check_before_start(phase: Phase, spec: PipelineSpec) -> list[str]:
    """Why the phase can't be started, in words; an empty list where it can."""
    run, phase_spec = phase.run, spec.by_key[phase.key]
    work_dir = within_roots(run.target, run.work_dir)
    values = values_for(phase, spec)
    problems = [
        f"{name} has no value: set it in {_where(spec, phase, name)}"
        for name in phase_spec.required_vars
        if not values.get(name)
    ]
    problems += phase_faults(spec, run, species_for(phase, phase_spec), phase_spec)
    problems += _script_problems(run, phase_spec)
    problems += _answer_problems(phase, phase_spec)
    if not problems:
        problems += _tool_problems(run, phase_spec, work_dir)
    return problems


def _answer_problems(phase: Phase, spec: PhaseSpec) -> list[str]:
    try:
        exported_values(phase, spec)
    except BadInput as error:
        return [error.message]
    return []


def _where(spec: PipelineSpec, phase: Phase, name: str) -> str:
    if phase.species is None or name in spec.defaults:
        return "pipeline.conf"
    return species_file(spec, phase.species.label)


def _script_problems(run: Run, spec: PhaseSpec) -> list[str]:
    problems = []
    for name in spec.scripts:
        try:
            step_resources(run, spec, script_text(run, spec, name))
        except OSError as error:
            problems.append(f"script {name} of the snapshot can't be read: {error.strerror}")
        except BadInput as error:
            problems.append(f"script {name}: {error.message}")
    return problems


def _tool_problems(run: Run, spec: PhaseSpec, work_dir: str) -> list[str]:
    """Which of the tools that the phase requires its job would not find on the target."""
    if not spec.required_tools:
        return []
    target = run.target
    done = shell_for(target).run(
        after_lines(target.environment_lines, ["/bin/bash", "-c", LIST_MISSING, "tools", *spec.required_tools]),
        env=environment_of(target),
        cwd=work_dir,
        timeout_s=TOOL_TIMEOUT_S,
    )
    if done.returncode:
        return [f"the environment lines of target {target.name} fail: {done.stderr.strip()[-300:]}"]
    missing = [tool for tool in spec.required_tools if tool in done.stdout.split()]
    return [f"{tool} is not found on target {target.name}: see its environment lines" for tool in missing]
