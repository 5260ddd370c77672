"""What asking a cluster after many jobs costs us, once nothing changes any more. Its `squeue` answers from a file."""

import time
from pathlib import Path
from statistics import median
from uuid import uuid4

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from bench.figures import Figure
from bench.lab import NOTHING, Bench
from jobs.clusters import drive_cluster
from jobs.following import name_of
from jobs.hosts import this_host
from jobs.models import Cluster, ClusterWatch, Job, Target, TargetKind
from jobs.states import JobState

LIVE_JOBS = 5_000
TURNS = 7
SQUEUE = '#!/bin/sh\necho called >> "{folder}/calls"\nexec cat "{folder}/queue"\n'


def poll_tick(bench: Bench) -> list[Figure]:
    """A whole turn at a cluster with so many running jobs: our own processor time, and scheduler calls and queries."""
    target = _cluster(bench)
    _insert_running(bench, target)
    _turn(target)  # the first one keeps the raw answers
    calls = _calls(target)
    times_ms = [_turn(target) for _ in range(TURNS)]
    called = (_calls(target) - calls) / TURNS
    queries = _queries(target)
    if Job.objects.filter(target=target, state=JobState.RUNNING).count() != LIVE_JOBS:
        raise RuntimeError("not all of the cluster's jobs are running still")
    Job.objects.filter(target=target).update(state=JobState.SUCCEEDED, ended_at=timezone.now(), final_handled=True)
    note = f"median of {TURNS}; {queries} queries"
    return [
        Figure(f"poll tick over {LIVE_JOBS:,} live jobs: processor", median(times_ms), "ms", 500.0, note),
        Figure(f"poll tick over {LIVE_JOBS:,} live jobs: scheduler calls", called, "calls", 1.0),
    ]


def _turn(target: Target) -> float:
    """Milliseconds of processor time of one turn; what it starts (our `squeue`) is not counted."""
    ClusterWatch.objects.filter(pk=target.pk).update(poll_due_at=None)
    began = time.process_time()
    drive_cluster(target.pk)
    return (time.process_time() - began) * 1000


def _queries(target: Target) -> int:
    ClusterWatch.objects.filter(pk=target.pk).update(poll_due_at=None)
    with CaptureQueriesContext(connection) as captured:
        drive_cluster(target.pk)
    return len(captured)


def _calls(target: Target) -> int:
    return len(Path(target.job_folder, "calls").read_text().splitlines())


def _cluster(bench: Bench) -> Target:
    folder = bench.folder / "cluster"
    folder.mkdir()
    (folder / "squeue").write_text(SQUEUE.format(folder=folder))
    (folder / "squeue").chmod(0o755)
    target = Target.objects.create(
        lab=bench.lab,
        name="cluster",
        kind=TargetKind.SLURM,
        host=this_host(),
        roots=bench.target.roots,
        job_folder=str(folder),
        slots=LIVE_JOBS,
    )
    Cluster.objects.create(target=target, commands_folder=str(folder))
    return target


def _insert_running(bench: Bench, target: Target) -> None:
    """The jobs, and the queue in which the cluster has them running."""
    now = timezone.now()
    jobs = [
        Job(
            lab=bench.lab,
            target=target,
            state=JobState.RUNNING,
            name=f"running {number}",
            subject_kind="bench",
            subject_uuid=uuid4(),
            script=NOTHING,
            work_dir=str(bench.folder),
            time_limit_s=3600,
            memory_mib=100,
            generation=1,
            native_id=str(100_000 + number),
            submitted_at=now,
            started_at=now,
        )
        for number in range(LIVE_JOBS)
    ]
    Job.objects.bulk_create(jobs, batch_size=1000)
    at = f"{now:%Y-%m-%dT%H:%M:%S}"
    lines = [f"{job.native_id}|{job.native_id}|N/A|RUNNING|None|{at}|{at}|N/A|{name_of(job)}\n" for job in jobs]
    Path(target.job_folder, "queue").write_text("".join(lines))
