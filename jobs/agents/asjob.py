"""An ask as a job: what it runs, where, and what of ours it may see."""

import json
import shlex
import sys

from django.conf import settings

from jobs.agents.configuration import secret_names
from jobs.agents.models import Agent, Ask
from jobs.hosts import this_host
from jobs.models import Target, TargetKind
from jobs.services import Resources, plan_job
from jobs.shells import cluster_of, is_remote
from record.errors import BadInput

PURPOSE = "ask"
ON_FINAL = "jobs.asked"
FOLDER = ".conductor/agents"
OUT_VARIABLE = "CONDUCTOR_AGENT_OUT"
ENDING_S = 60  # what the job may take besides waiting for the agent
MEMORY_MIB = 256  # and what the runner itself takes


def plan_ask(ask: Ask, agent: Agent) -> None:
    """Plan the job that puts the question; in the caller's transaction. BadInput where it can't be."""
    target = target_of(agent)
    names = secret_names(agent.configuration)
    if names and target.kind != TargetKind.LOCAL:
        raise BadInput(f"Variables of this server don't reach {target.name}: name files with the secrets instead.")
    work_dir = target.roots[0]
    folder = f"{work_dir}/{FOLDER}/{ask.uuid}"
    ask.job = plan_job(
        target=target,
        name=f"ask {agent.name}: {ask.item or ask.subject_label}"[:200],
        subject=ask.subject(),
        script=script_for(ask, agent, target, folder),
        script_name="ask.sh",
        work_dir=work_dir,
        environment={"PYTHONPATH": str(settings.BASE_DIR), OUT_VARIABLE: folder},
        purpose=PURPOSE,
        step=0,
        attempt=1,
        on_final=ON_FINAL,
        resources=Resources(agent.time_limit_s + ENDING_S, agent.memory_mib + MEMORY_MIB),
    )
    if names:
        ask.job.environment_names = names
        ask.job.save(update_fields=["environment_names"])


def target_of(agent: Agent) -> Target:
    """Where it runs: its own target, or the first local one of its lab on this host; BadInput where there is none."""
    target = agent.target
    if target is None:
        local = Target.objects.filter(lab_id=agent.lab_id, kind=TargetKind.LOCAL, archived_at=None).exclude(roots=[])
        found = sorted(local, key=lambda each: (each.host != this_host(), each.pk))
        target = found[0] if found else None
    if target is None or target.archived_at is not None or not target.roots:
        raise BadInput(f"There is no target on which {agent.name} can run: an administrator must give it one.")
    if is_remote(target):
        raise BadInput(
            f"{agent.name} can't run on {target.name}, which is reached over SSH: choose a target of this host."
        )
    return target


def script_for(ask: Ask, agent: Agent, target: Target, folder: str) -> str:
    """A shell script that gives the question, as one line of JSON, to the runner: nothing of it is ever shell's."""
    order = {
        "backend": agent.backend, "configuration": agent.configuration, "prompt": ask.prompt, "folder": folder,
        "attachments": ask.attachments, "time_limit_s": agent.time_limit_s, "isolation": agent.isolation,
        "user": settings.AGENT_USER,
    }  # fmt: skip
    line = json.dumps(order, ensure_ascii=True)
    return (
        "#!/bin/bash\n"
        f"#SBATCH --job-name=ask\n#SBATCH --output={FOLDER}/logs/%j.out\n#SBATCH --error={FOLDER}/logs/%j.err\n"
        f"umask 077\nexec {shlex.quote(_python(target))} -m jobs.agents.runner <<'ORDER'\n{line}\nORDER\n"
    )


def _python(target: Target) -> str:
    own = "" if target.kind == TargetKind.LOCAL else cluster_of(target).python
    return own or sys.executable
