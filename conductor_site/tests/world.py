"""One of each thing in a lab, for the tests that walk over everything."""

import platform
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone
from django.utils.text import slugify

from conductor_site.accounts.links import make_link
from conductor_site.api.tokens import make_token
from conductor_site.models import ApiToken, LinkKind, OneTimeLink
from gates.models import Ballot, Evidence, Gate
from gates.store import put
from jobs.agents.models import Agent, Ask
from jobs.agents.store import keep
from jobs.models import Job, Target
from record.models import Channel, Decision, Delivery, Door, Event, Lab, Role
from record.services import Author, record_event
from record.tests.factories import decide, make_agent_user, make_person
from runs.models import Phase, Pipeline, Run, Species, TiltSeries
from runs.services.create import create_run
from runs.tests.factories import write_pipeline


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


# A grey PNG of one pixel.
PIXEL = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(b"\x00\x80"))
    + _chunk(b"IEND", b"")
)


# What every refusal of the API holds.
PROBLEM = {"type", "title", "status", "detail", "instance", "code", "extra"}


@dataclass
class World:
    """What there is in one lab; the names are those that the access table uses."""

    lab: Lab
    target: Target
    pipeline: Pipeline
    run: Run
    paused_run: Run
    cancelled_run: Run
    failed_phase: Phase
    species: Species
    series: TiltSeries
    phase: Phase
    job: Job
    gate: Gate
    ended_gate: Gate
    unprepared_gate: Gate
    unapplied_gate: Gate
    advised_gate: Gate
    agent: Agent
    ask: Ask
    evidence: Evidence
    ballot: Ballot
    decision: Decision
    event: Event
    member: User
    agent_user: User
    agent_token: ApiToken
    invitation: OneTimeLink
    channel: Channel
    given_up: Delivery


def stores_in(folder: Path) -> override_settings:
    """Settings under which evidence, snapshots and pipelines lie in `folder`."""
    return override_settings(
        EVIDENCE_ROOT=folder / "evidence",
        AGENT_OUTPUT_ROOT=folder / "agents",
        SNAPSHOT_ROOT=folder / "snapshots",
        PIPELINE_ROOTS=[folder],
    )


def make_world(lab: Lab, person: User, folder: Path, *, name: str = "first") -> World:
    """One of each thing in `lab`, made by `person`; files lie under `folder`."""
    target = make_target(lab, folder, name=f"local-{name}")
    run = make_run(lab, person, target, folder, name=name)
    paused, cancelled = (make_resting_run(run, state) for state in ("paused", "cancelled"))
    Run.objects.filter(pk=paused.pk).update(exports_state=True)
    species = run.species.get()
    series = TiltSeries.objects.create(run=run, name="TS_001")
    phase, failed = run.phases.order_by("position")[:2]
    Phase.objects.filter(pk=failed.pk).update(state="failed", attempt=1, reason="exit code 1")
    decision = decide(lab, person, subject=phase.subject(), reason="the fiducials are well tracked")
    gate = make_gate(lab, phase, person)
    ended = make_gate(lab, phase, person, key="timed_out", state="timed_out", ended_at=timezone.now())
    unprepared = make_gate(lab, phase, person, key="unprepared", state="prepare_failed", error="the disk is full")
    unapplied = make_gate(
        lab, phase, person, key="unapplied", state="apply_failed", decision=decision, error="the disk is full"
    )
    advised = make_gate(
        lab, phase, person, key="advised", protocol="alignment_qc", options={},
        suggestion={"series": {"TS_001": {"verdict": "good", "keep": True, "note": ""}}},
    )  # fmt: skip
    agent = make_agent(lab, name=f"claire-{name}")
    ask = make_ask(agent, person, gate)
    evidence = make_evidence(gate)
    ballot = Ballot.objects.create(gate=gate, voter=person, voter_name="A", door="web", verdict="approve", digest="d")
    job = make_job(lab, target, phase, folder)
    event = record_event(lab_id=lab.pk, kind="run.create", subject=run.subject())
    channel = Channel.objects.create(lab=lab, name=f"room-{slugify(name)}", kind="email", address="lab@example.org")
    given_up = Delivery.objects.create(
        event=event, channel=channel, recipient="lab@example.org", state="given_up", ended_at=timezone.now()
    )
    return World(
        lab=lab,
        target=target,
        pipeline=run.snapshot.pipeline,
        run=run,
        paused_run=paused,
        cancelled_run=cancelled,
        failed_phase=failed,
        species=species,
        series=series,
        phase=phase,
        job=job,
        gate=gate,
        ended_gate=ended,
        unprepared_gate=unprepared,
        unapplied_gate=unapplied,
        advised_gate=advised,
        agent=agent,
        ask=ask,
        evidence=evidence,
        ballot=ballot,
        decision=decision,
        event=event,
        member=make_person(f"member-{name}", lab, Role.VIEWER),
        agent_user=(user := make_agent_user(f"reader-{name}", lab, Role.VIEWER)),
        agent_token=make_token(user=user, name="reading", scopes=["read"])[0],
        invitation=make_link(kind=LinkKind.INVITATION, life_h=1, lab=lab, role="viewer", made_by=person).row,
        channel=channel,
        given_up=given_up,
    )


def make_target(lab: Lab, folder: Path, *, name: str) -> Target:
    for each in ("work", "jobs"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    return Target.objects.create(
        lab=lab, name=name, host=platform.node(), roots=[str(folder / "work")], job_folder=str(folder / "jobs")
    )


def make_run(lab: Lab, person: User, target: Target, folder: Path, *, name: str) -> Run:
    """A run of the small pipeline that the tests of runs use; it waits for its first job to be planned."""
    where = write_pipeline(folder / "pipeline")
    pipeline, _ = Pipeline.objects.get_or_create(lab=lab, name="tomo", defaults={"folder": str(where)})
    return create_run(
        lab_id=lab.pk,
        author=Author.person(person, Door.WEB),
        pipeline=pipeline,
        target=target,
        name=name,
        work_dir=f"{target.roots[0]}/{name.replace(' ', '_')}",
        conf={},
        species=["alpha"],
    )


def make_resting_run(like: Run, state: str) -> Run:
    """A run of the same pipeline in another state, without phases."""
    return Run.objects.create(
        lab=like.lab,
        name=f"{like.name} {state}",
        snapshot=like.snapshot,
        target=like.target,
        work_dir=f"{like.work_dir}_{state}",
        state=state,
        created_by=like.created_by,
    )


def make_phase(run: Run, *, key: str, position: int = 0, **fields: Any) -> Phase:
    return Phase.objects.create(run=run, key=key, title=f"Phase {key}", position=position, **fields)


def make_gate(lab: Lab, phase: Phase, person: User, *, key: str = "after_align", **fields: Any) -> Gate:
    """An open gate that asks for a number of pixels, unless `fields` say otherwise."""
    question = {"name": "shift", "kind": "number", "label": "Largest shift", "unit": "px", "min": 0, "max": 20}
    defaults: dict[str, Any] = {
        "protocol": "generic",
        "options": {"fields": [question], "additions": True},
        "suggestion": {"shift": 4.5},
        "state": "open",
        "opened_at": timezone.now(),
        "digest": "d" * 64,
    }
    return Gate.objects.create(
        lab=lab,
        subject_kind="phase",
        subject_uuid=phase.uuid,
        root_uuid=phase.run.uuid,
        key=key,
        title="Alignment",
        context=f"run {phase.run.name}, {phase.key}",
        requested_by=person,
        **(defaults | fields),
    )


def make_evidence(
    gate: Gate, *, name: str = "00_slices/TS_001.png", content: bytes = PIXEL, kind: str = "image"
) -> Evidence:
    stored = put(content, name=name, kind=kind)
    return Evidence.objects.create(
        gate=gate,
        name=name,
        kind=kind,
        media_type=stored.media_type,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
    )


def make_agent(lab: Lab, *, name: str = "claire") -> Agent:
    """A program that says that all is good."""
    answer = '{"status": "ok", "verdict": "good", "reason": "sharp"}'
    return Agent.objects.create(
        lab=lab, name=name, role="looks at tomograms", backend="command", family="shell",
        configuration={"command": ["echo", answer]},
    )  # fmt: skip


def make_ask(agent: Agent, person: User, gate: Gate, *, item: str = "TS_001", **fields: Any) -> Ask:
    """An ask about an item of a gate that has been answered, unless `fields` say otherwise."""
    raw = b'{"status": "ok", "verdict": "good", "reason": "sharp"}\n'
    defaults: dict[str, Any] = {
        "raw_sha256": keep(raw),
        "raw_bytes": len(raw),
        "state": "ok",
        "ended_at": timezone.now(),
        "isolation": "bubblewrap",
        "result": {"status": "ok", "verdict": "good", "reason": "sharp"},
        "digest": "a" * 64,
    }
    return Ask.objects.create(
        lab=agent.lab, agent=agent, agent_name=agent.name, family=agent.family, backend=agent.backend,
        asked_by=person, asked_by_name=person.get_username(), door="web", subject_kind="gate",
        subject_uuid=gate.uuid, subject_label=str(gate)[:300], root_uuid=gate.root_uuid, item=item,
        template="alignment_qc.tomogram", template_version=1, prompt="Is it good?", **(defaults | fields),
    )  # fmt: skip


def make_job(lab: Lab, target: Target, phase: Phase, folder: Path) -> Job:
    return Job.objects.create(
        lab=lab,
        target=target,
        name="align",
        subject_kind="phase",
        subject_uuid=phase.uuid,
        root_uuid=phase.run.uuid,
        script="#!/bin/bash\ntrue\n",
        work_dir=str(folder / "work"),
        time_limit_s=60,
        memory_mib=100,
        state="planned",
    )
