"""Whoever locks several rows does it in one order, so that no two wait for each other for ever."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import Error as DatabaseError
from django.db import connection

from gates.models import Gate
from gates.services import answer_gate, apply_gate, reopen_gate, withdraw_gate
from gates.services.clocks import extend_deadlines
from gates.states import ENDED
from jobs.custody import claim_due, finish_job
from jobs.endings import Ending
from jobs.models import Job, Target
from jobs.services import handle_final
from record.errors import ConductorError
from record.models import Decision, Door, Lab
from record.services import Author
from record.verify import verify_record
from runs.models import Phase, Run, TiltSeries
from runs.services.control import pause_run, resume_run, retry_phase, run_again_from, skip_phase
from runs.services.launch import start_phase
from runs.services.series import exclude_series, include_series
from runs.tests.factories import OVERLAY, Bench, write_pipeline

THREADS = 8
SECONDS = 6.0
LEAST = 6  # things that each has done, however busy the machine
PATIENCE_S = 120.0
DECIDED_AT_BOTH = OVERLAY.replace("after: 2", "after: 3a")


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one lock, and no order of several")
@pytest.mark.django_db(transaction=True)
def test_everybody_does_everything_to_one_run_at_once(
    bench: Bench, people: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is told by the database that they waited for each other, and the chain of decisions is whole."""
    write_pipeline(bench.folder / "pipeline", **{"scripts/conductor.yml": DECIDED_AT_BOTH})
    run = bench.begin()
    bench.drive()
    assert Gate.objects.filter(state="open").count() == 2
    deadline = time.monotonic() + SECONDS

    with ThreadPoolExecutor(THREADS) as pool:
        crowd = [pool.submit(_one_of_many, Deeds(bench, run, people, seed), deadline) for seed in range(THREADS)]
        done = [each.result() for each in crowd]

    assert sum(done) >= THREADS * LEAST and Decision.objects.count() > 5
    assert "deadlock" not in caplog.text  # also not where what follows a job's end was put off because of one
    assert list(verify_record(Lab.objects.all())) == []


class Deeds:
    """What one of many does to a run, each time another thing."""

    def __init__(self, bench: Bench, run: Run, people: Any, seed: int) -> None:
        self.bench, self.run, self.random = bench, run, random.Random(seed)  # noqa: S311 - no secret
        self.reviewer = Author.person(people.reviewer, Door.API)
        self.operator = bench.operator
        self.all: list[Callable[[], Any]] = [
            self.answer, self.answer, self.apply, self.apply, self.withdraw, self.reopen, self.again, self.again,
            self.skip, self.retry, self.pause, self.resume, self.start, self.end, self.end, self.claim, self.series,
            self.clocks,
        ]  # fmt: skip

    def one(self) -> None:
        self.random.choice(self.all)()

    def any_of(self, rows: Any) -> Any:
        return self.random.choice(list(rows))

    def answer(self) -> None:
        gate = self.any_of(Gate.objects.filter(state="open"))
        verdict = self.random.choice(["approve", "send_back", "reject"])
        answer_gate(
            gate_id=gate.pk, author=self.reviewer, verdict=verdict, answers={}, reason="so", seen_digest=gate.digest
        )

    def apply(self) -> None:
        apply_gate(self.any_of(Gate.objects.filter(state="decided")).pk)

    def withdraw(self) -> None:
        withdraw_gate(gate_id=self.any_of(Gate.objects.exclude(state__in=ENDED)).pk, author=self.operator, reason="so")

    def reopen(self) -> None:
        reopen_gate(gate_id=self.any_of(Gate.objects.order_by("-id")[:4]).pk, author=self.reviewer, reason="so")

    def again(self) -> None:
        run_again_from(phase=self.any_of(self.run.phases.all()), author=self.operator, reason="so")

    def skip(self) -> None:
        skip_phase(phase=self.any_of(self.run.phases.filter(state="checkpoint")), author=self.operator, reason="so")

    def retry(self) -> None:
        retry_phase(phase=self.any_of(self.run.phases.filter(state="failed")), author=self.operator)

    def pause(self) -> None:
        pause_run(run=self.run, author=self.operator)

    def resume(self) -> None:
        resume_run(run=self.run, author=self.operator)

    def start(self) -> None:
        start_phase(self.any_of(Phase.objects.filter(run=self.run, state="ready")).pk)

    def claim(self) -> None:
        claim_due(targets=list(Target.objects.all()), holder="boot:1:1")

    def end(self) -> None:
        job = self.any_of(Job.objects.live().exclude(state="planned").select_related("target"))
        finish_job(job, Ending(self.random.choice(["succeed", "fail"]), "", exit_code=0))
        handle_final(Job.objects.get(pk=job.pk))

    def series(self) -> None:
        series = self.any_of(TiltSeries.objects.filter(run=self.run))
        change = exclude_series if series.excluded_by_id is None else include_series
        change(series=series, author=self.reviewer, reason="so")

    def clocks(self) -> None:
        extend_deadlines(gap=timedelta(seconds=1))


def _one_of_many(deeds: Deeds, deadline: float) -> int:
    """How many things were done; what a service refuses, or what there is none of, is passed over."""
    done = 0
    try:
        while (now := time.monotonic()) < deadline or (done < LEAST and now < deadline + PATIENCE_S):
            try:
                deeds.one()
                done += 1
            except (ConductorError, IndexError):
                continue
            except DatabaseError as error:
                raise AssertionError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    return done
