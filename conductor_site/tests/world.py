"""One of each thing in a lab, for the tests that walk over everything."""

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from gates.models import Ballot, Evidence, Gate
from jobs.models import Job, Target
from record.models import Decision, Event, Lab
from record.services import record_event
from record.tests.factories import decide
from runs.models import Phase, Pipeline, Run, Snapshot, Species, TiltSeries
from runs.pipeline.spec import GateSpec, PhaseSpec, PipelineSpec

SPEC = PipelineSpec(
    title="Tomography",
    phases=(PhaseSpec(key="align", title="Alignment", per_species=False, scripts=("align.slurm",)),),
    gates=(GateSpec(key="after_align", protocol="generic", phase="align", where="after", title="Alignment"),),
)


@dataclass
class World:
    """What there is in one lab; the names are those that the access table uses."""

    lab: Lab
    target: Target
    pipeline: Pipeline
    run: Run
    species: Species
    series: TiltSeries
    phase: Phase
    job: Job
    gate: Gate
    evidence: Evidence
    ballot: Ballot
    decision: Decision
    event: Event


def make_world(lab: Lab, person: User, folder: Path, *, name: str = "first") -> World:
    """One of each thing in `lab`, made by `person`; files lie under `folder`."""
    target = make_target(lab, folder, name=f"local-{name}")
    run = make_run(lab, person, target, folder, name=name)
    species = Species.objects.create(run=run, label="ribosome")
    series = TiltSeries.objects.create(run=run, name="TS_001")
    phase = make_phase(run, key="align")
    decision = decide(lab, person, subject=phase.subject(), reason="the fiducials are well tracked")
    gate = make_gate(lab, phase, person)
    evidence = make_evidence(gate)
    ballot = Ballot.objects.create(gate=gate, voter=person, voter_name="A", door="web", verdict="approve", digest="d")
    job = make_job(lab, target, phase, folder)
    event = record_event(lab_id=lab.pk, kind="run.create", subject=run.subject())
    return World(
        lab, target, run.snapshot.pipeline, run, species, series, phase, job, gate, evidence, ballot, decision, event
    )


def make_target(lab: Lab, folder: Path, *, name: str) -> Target:
    for each in ("work", "jobs"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    return Target.objects.create(
        lab=lab, name=name, host=platform.node(), roots=[str(folder / "work")], job_folder=str(folder / "jobs")
    )


def make_run(lab: Lab, person: User, target: Target, folder: Path, *, name: str) -> Run:
    pipeline, _ = Pipeline.objects.get_or_create(lab=lab, name="tomo", defaults={"folder": str(folder / "pipeline")})
    snapshot, _ = Snapshot.objects.get_or_create(pipeline=pipeline, digest="a" * 64, defaults={"spec": SPEC.to_json()})
    return Run.objects.create(
        lab=lab,
        name=name,
        snapshot=snapshot,
        target=target,
        work_dir=os.path.join(target.roots[0], name),
        created_by=person,
    )


def make_phase(run: Run, *, key: str, position: int = 0, **fields: Any) -> Phase:
    return Phase.objects.create(run=run, key=key, title=f"Phase {key}", position=position, **fields)


def make_gate(lab: Lab, phase: Phase, person: User, *, key: str = "after_align") -> Gate:
    return Gate.objects.create(
        lab=lab,
        subject_kind="phase",
        subject_uuid=phase.uuid,
        root_uuid=phase.run.uuid,
        key=key,
        protocol="not_installed",
        title="Alignment",
        context="run first, align",
        state="open",
        opened_at=timezone.now(),
        requested_by=person,
        digest="d" * 64,
    )


def make_evidence(gate: Gate, *, name: str = "00_slices/TS_001.png", content: bytes = b"\x89PNG") -> Evidence:
    return Evidence.objects.create(
        gate=gate,
        name=name,
        kind="image",
        media_type="image/png",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
    )


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
