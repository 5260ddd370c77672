"""Two people answer each gate, through two web servers, while those and `conduct` are felled at each boundary."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from conductor_site.demo.client import ApiError, Client, NoAnswer
from conductor_site.demo.supervisor import web_argv
from conductor_site.tests.postgresql import Server
from conductor_site.tests.stage import ROOT
from faults.arena import STALL_S, WORDS, Arena
from faults.ground import Ground
from faults.limits import Limits, TooLate
from faults.referee import plain
from faults.trials import Fault, Part, Trial
from record.tests.servers.ports import free_ports

PEOPLE = ("ada", "ben")
OF_WEB = ["answer_before_commit", "answer_committed"]
OF_CONDUCT = [
    "apply_claimed", "apply_persisted", "apply_before_commit", "applied", "phase_prepared", "phase_before_commit",
]  # fmt: skip
AT_RANDOM = 8  # gates answered while everybody is killed at a random moment
TOLD = 409
APPLY_LEASE_S = 20  # after which another may take over what a dead process began to apply
PATIENCE_S = 240.0

# Begins runs of a pipeline of two phases with a gate between them, which sets a value that the second one uses.
PREPARE = """
import json, os, sys, django; django.setup()
from pathlib import Path
from django.conf import settings
from django.contrib.auth.models import User
from conductor_site.api.tokens import make_token
from jobs.models import Target
from record.models import Door, Lab, Membership
from record.services import Author
from runs.models import Pipeline
from runs.services.create import create_run
wishes = json.loads(sys.argv[1])
lab, target = Lab.objects.get(), Target.objects.get()
tokens = {}
for name in wishes["people"]:
    person = User.objects.create_user(name)
    Membership.objects.bulk_create(Membership(lab=lab, user=person, role=role) for role in ("operator", "reviewer"))
    tokens[name] = make_token(user=person, name="trials")[1]
folder = settings.PIPELINE_ROOTS[0] / "gated"
(folder / "scripts").mkdir(parents=True)
(folder / "pipeline.conf").write_text("WORK_DIR=\\nTHRESHOLD=1\\n")
(folder / "scripts" / "step.sh").write_text(wishes["script"])
(folder / "scripts" / "manifest.yml").write_text("phases:\\n" + "".join(
    f"  {key}: {{description: Step {key}, scripts: [step.sh], requires_species: false, required_vars: [THRESHOLD]}}\\n"
    for key in ("p1", "p2")))
(folder / "scripts" / "conductor.yml").write_text(
    "conf:\\n  THRESHOLD: {label: Threshold, kind: number, min: 0, max: 1000}\\n"
    "gates:\\n  - {key: look, protocol: setup, before: p2, title: Look at it}\\n")
pipeline = Pipeline.objects.create(lab=lab, name="gated", folder=str(folder))
author = Author.person(person, Door.CLI)
for number in range(wishes["runs"]):
    create_run(lab_id=lab.pk, author=author, pipeline=pipeline, target=target, name=f"run-{number}",
        work_dir=f"{target.roots[0]}/run-{number}", conf={}, species=[])
print(json.dumps(tokens))
"""


@dataclass
class Asked:
    """One gate, and what those who answered it were told: name -> uuid of their decision, or the refusal's words."""

    pk: int
    uuid: str
    run: str
    digest: str
    values: dict[str, int]
    won: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)


class Answerer(threading.Thread):
    """A person who sends an answer until it is known what became of it."""

    def __init__(self, name: str, client: Client, gate: Asked, limits: Limits) -> None:
        super().__init__(daemon=True)
        self.person, self.client, self.gate, self.limits = name, client, gate, limits

    def run(self) -> None:
        body = {
            "verdict": "approve", "digest": self.gate.digest, "reason": f"as {self.person} sees it",
            "answers": {"THRESHOLD": self.gate.values[self.person]},
        }  # fmt: skip
        until_s = time.monotonic() + min(90.0, self.limits.left_s())
        while time.monotonic() < until_s:
            try:
                answer = self.client.post(f"gates/{self.gate.pk}/decide/", body)
            except NoAnswer:
                time.sleep(0.2)
                continue
            except ApiError as error:
                self.gate.told[self.person] = str(error)
                return
            self.gate.won[self.person] = plain(answer["decision"])
            return


def run(ground: Ground, part: Part, *, server: Server | None = None, where: str) -> None:
    """As many runs as there are faults, each with one gate."""
    faults = [(point, action, "web") for point, action in product(OF_WEB, WORDS)]
    faults += [(point, action, "conduct") for point, action in product(OF_CONDUCT, WORDS)]
    faults = ground.choose(faults, times=2)
    at_random = ground.times(AT_RANDOM)
    with ground.arena(part.name.replace(" ", "-"), where, server=server) as arena:
        people = _prepare(arena, len(faults) + at_random)
        gates = arena.limits.until(lambda: _open_gates(arena, len(faults) + at_random), what="the gates are open")
        for (boundary, action, whom), gate in zip(faults, gates, strict=False):
            _at_boundary(arena, people, gate, boundary, action, whom)
        _at_random(arena, people, gates[len(faults) :])
        with suppress(TooLate):
            arena.limits.until(lambda: _all_done(arena), what="all are done", within_s=PATIENCE_S, every_s=0.5)
        arena.settle()
        _judge(arena, gates)
        arena.judge_chain(part)


def _prepare(arena: Arena, runs: int) -> dict[str, Client]:
    """Two web servers, two `conduct`s, and so many runs that come to their gates; who answers through which server."""
    stage = arena.stage
    stage.environment |= {
        "CONDUCTOR_PIPELINES": str(arena.folder / "pipelines"),
        "CONDUCTOR_GATE_APPLY_LEASE_S": str(APPLY_LEASE_S),
    }
    for shared in ("snapshots", "evidence"):  # as hosts share them
        (arena.folder / "var" / shared).mkdir()
        (arena.folder / "b").mkdir(exist_ok=True)
        (arena.folder / "b" / shared).symlink_to(arena.folder / "var" / shared)
    wishes = {"people": PEOPLE, "runs": runs, "script": _script(arena)}
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", PREPARE, json.dumps(wishes)],
        cwd=ROOT, env=stage.environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    tokens = json.loads(done.stdout)
    people = {}
    for name, port in zip(PEOPLE, free_ports(2), strict=True):
        arena.keep(f"web {name}", lambda port=port: _web(arena, port))  # type: ignore[misc]
        people[name] = Client(f"http://127.0.0.1:{port}")
        people[name].token = tokens[name]
    arena.conduct("var")
    arena.conduct("b")
    return people


def _script(arena: Arena) -> str:
    return f"""#!/bin/bash
source "$SKILL_DIR/pipeline.conf"
echo $CONDUCTOR_TOKEN >> {arena.tally}/began
echo "$WORK_DIR $CONDUCTOR_PHASE $THRESHOLD" >> {arena.tally}/used
echo $CONDUCTOR_TOKEN 0 >> {arena.tally}/ended
"""


def _web(arena: Arena, port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own command
        web_argv(f"127.0.0.1:{port}"),
        cwd=ROOT,
        env=arena.stage.environment,
        stdout=arena.stage.log,
        stderr=arena.stage.log,
    )


def _open_gates(arena: Arena, count: int) -> list[Asked]:
    rows = arena.stage.rows("select id, uuid, root_uuid, digest from gates_gate where state = 'open' order by id")
    if len(rows) < count:
        return []
    return [
        Asked(
            row["id"], plain(row["uuid"]), plain(row["root_uuid"]), row["digest"],
            {name: 10 * number + offset for offset, name in enumerate(PEOPLE, start=2)},
        )
        for number, row in enumerate(rows)
    ]  # fmt: skip


def _answer(arena: Arena, people: Mapping[str, Client], gate: Asked) -> list[Answerer]:
    both = [Answerer(name, client, gate, arena.limits) for name, client in people.items()]
    for each in both:
        each.start()
    return both


def _join(arena: Arena, answerers: list[Answerer]) -> None:
    arena.limits.until(lambda: not any(each.is_alive() for each in answerers), what="everybody was told something")


def _at_boundary(
    arena: Arena, people: Mapping[str, Client], gate: Asked, boundary: str, action: str, whom: str
) -> None:
    """Fell whoever comes to that boundary first with this gate."""
    arena.mend()
    arena.arm(boundary, action)
    answerers = _answer(arena, people, gate)
    pid, _ = arena.fallen(boundary)
    arena.befall(Fault(WORDS[action], whom, boundary), [f"gate {gate.pk}"])
    if action == "stop":
        arena.limits.rest(STALL_S)
        arena.send([pid], "go on")
    arena.mend()
    _join(arena, answerers)


def _at_random(arena: Arena, people: Mapping[str, Client], gates: list[Asked]) -> None:
    """All gates are answered at once, and everybody is killed at a random moment."""
    arena.mend()
    fault = Fault(WORDS["kill"], "web and conduct", "a random moment")
    answerers = [each for gate in gates for each in _answer(arena, people, gate)]
    arena.limits.rest(arena.chance.uniform(0.0, 0.3))
    arena.send(arena.pids(), "kill")
    waiting = arena.stage.rows("select id from gates_gate where state not in ('applied')")
    open_still = {row["id"] for row in waiting}
    arena.befall(fault, [f"gate {gate.pk}" for gate in gates if gate.pk in open_still])
    arena.mend()
    _join(arena, answerers)


def _all_done(arena: Arena) -> bool:
    arena.mend()
    return not arena.stage.rows("select 1 from runs_run where state <> 'done' limit 1")


def _judge(arena: Arena, gates: list[Asked]) -> None:
    decisions: dict[str, list[dict[str, Any]]] = {}
    for row in arena.stage.rows(
        "select d.uuid, d.gate_uuid, d.actor_name, s.answers from record_decision d "
        "join record_statement s on s.decision_id = d.id where d.gate_uuid is not null"
    ):
        decisions.setdefault(plain(row["gate_uuid"]), []).append(row)
    states = {row["id"]: row["state"] for row in arena.stage.rows("select id, state from gates_gate")}
    runs = {plain(row["uuid"]): row for row in arena.stage.rows("select uuid, state, work_dir from runs_run")}
    used: dict[tuple[str, str], list[str]] = {}
    for line in (arena.tally / "used").read_text().splitlines():
        work_dir, phase, threshold = line.split()
        used.setdefault((work_dir, phase), []).append(threshold)
    for gate in gates:
        if (trial := arena.trials.get(f"gate {gate.pk}")) is not None:
            run = runs[gate.run]
            own = decisions.get(gate.uuid, [])
            _judge_gate(trial, gate, own, states[gate.pk], run["state"], used.get((run["work_dir"], "p2"), []))


def _judge_gate(
    trial: Trial, gate: Asked, decisions: list[dict[str, Any]], state: str, run_state: str, used: list[str]
) -> None:
    """One decision, by the one who was told that it is theirs, applied once, with the value that was given."""
    if not decisions or state != "applied" or run_state != "done":
        trial.lost = f"{len(decisions)} decisions, the gate is {state}, the run is {run_state}"
        return
    if len(decisions) > 1 or len(gate.won) > 1 or len(used) > 1:
        trial.doubled = f"{len(decisions)} decisions, told to {sorted(gate.won)}, used by {len(used)} executions"
        return
    (decision,) = decisions
    by, answers = decision["actor_name"], decision["answers"]
    answers = json.loads(answers) if isinstance(answers, str) else answers
    value = gate.values[by]
    if float(answers["THRESHOLD"]) != value or [float(each) for each in used] != [value]:
        trial.wrong = f"{by} answered {value}; recorded {answers}, used {used}"
    elif any((name, uuid) != (by, plain(decision["uuid"])) for name, uuid in gate.won.items()):
        trial.wrong = f"decided by {by}, and {gate.won} were told that it is theirs"
    elif any(f"by {by} on" not in words for words in gate.told.values()):
        trial.wrong = f"decided by {by}, and others were told {gate.told}"
    elif set(gate.won) | set(gate.told) != set(PEOPLE):
        trial.wrong = f"only {sorted({*gate.won, *gate.told})} were told what became of their answers"
