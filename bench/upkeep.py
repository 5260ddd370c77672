"""What Conductor costs while nothing happens, and how long a look at what is due takes beside much that has ended."""

import selectors
import time
from statistics import median
from uuid import uuid4

from django.utils import timezone

from bench.figures import Figure
from bench.lab import Bench
from bench.site import Site
from bench.usage import Usage, usage_of
from conductor_site.conduct.due import DueTable
from jobs.hands import Hands
from jobs.hosts import this_host
from jobs.models import Job
from jobs.states import JobState

ENDED_JOBS = 100_000
SWEEPS = 30
SETTLE_S = 15.0  # until what was begun before has been seen to


def at_rest(site: Site, name: str, *, seconds: float) -> list[Figure]:
    """CPU-seconds a minute and memory of web server, `conduct` and workers together, over `seconds`."""
    time.sleep(min(SETTLE_S, seconds))
    before, began = usage_of(site.pids), time.monotonic()
    most = before
    while time.monotonic() - began < seconds:
        time.sleep(min(5.0, seconds))
        most = max(most, usage_of(site.pids), key=lambda usage: usage.pss_mb)
    after, took_s = usage_of(site.pids), time.monotonic() - began
    return _figures(name, before, after, most, took_s)


def sweep(bench: Bench) -> Figure:
    """One tick of `conduct`, everything that it asks of the database, beside jobs that have ended long ago."""
    _insert_ended_jobs(bench)
    selector = selectors.DefaultSelector()
    hands, due = Hands(host=this_host(), selector=selector), DueTable()
    times_ms = []
    for _ in range(SWEEPS):
        began = time.perf_counter()
        hands.know_targets()
        hands.start_due()
        hands.follow()
        due.run()
        times_ms.append((time.perf_counter() - began) * 1000)
    selector.close()
    return Figure(f"sweep beside {ENDED_JOBS:,} ended jobs", median(times_ms), "ms", 20.0, f"median of {SWEEPS}")


def _figures(name: str, before: Usage, after: Usage, most: Usage, took_s: float) -> list[Figure]:
    cpu_s = (after.cpu_s - before.cpu_s) * 60 / took_s
    note = f"{after.processes} processes over {took_s:.0f} s"
    return [
        Figure(f"{name}: processor", cpu_s, "s/min", 1.0, note),
        Figure(f"{name}: memory (PSS)", most.pss_mb, "MB", 250.0, note),
    ]


def _insert_ended_jobs(bench: Bench) -> None:
    now = timezone.now()
    Job.objects.bulk_create(
        (
            Job(
                lab=bench.lab,
                target=bench.target,
                state=JobState.SUCCEEDED,
                name=f"ended {number}",
                subject_kind="bench",
                subject_uuid=uuid4(),
                final_handled=True,
                script="#!/bin/sh\n",
                work_dir=str(bench.folder),
                time_limit_s=60,
                memory_mib=100,
                generation=1,
                ended_at=now,
                exit_code=0,
            )
            for number in range(ENDED_JOBS)
        ),
        batch_size=2000,
    )
