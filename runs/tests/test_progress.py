"""How far, how long, how long still."""

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.utils import timezone

from runs.models import Phase
from runs.progress import LOOK_EVERY_S, estimate
from runs.sweep import refresh_progress, start_ready
from runs.tests.factories import Bench, phase_of


def test_progress_is_read_from_disk_while_a_phase_runs(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    bench.run_jobs()
    start_ready()
    folder = Path(run.work_dir) / "recon"
    folder.mkdir()
    (folder / "TS_001.txt").write_text("32\n")

    assert refresh_progress() == 0, "it was looked at when the phase started"
    with time_machine.travel(timezone.now() + timedelta(seconds=LOOK_EVERY_S + 1), tick=False):
        assert refresh_progress() == 1
        phase = phase_of(run, "2")
        assert (phase.items_done, phase.items_total, phase.completion) == (1, 3, "partial")
        assert refresh_progress() == 0, "it was looked at just now"


def test_the_estimate_goes_by_its_own_pace_and_by_earlier_attempts(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    now = timezone.now()
    done = Phase.objects.filter(pk=phase_of(run, "2").pk)
    done.update(state="done", started_at=now - timedelta(seconds=100), ended_at=now - timedelta(seconds=70))

    other = bench.begin("second")
    running = Phase.objects.filter(pk=phase_of(other, "2").pk)
    running.update(state="running", started_at=now - timedelta(seconds=5), items_total=4)
    with time_machine.travel(now, tick=False):
        found = estimate(phase_of(other, "2"))
        assert (found.elapsed_s, found.from_attempts) == (pytest.approx(5, abs=0.01), 1)
        assert found.remaining_s == pytest.approx(35, abs=0.01), "four items of 10 s, less the 5 s that are gone"

        running.update(items_done=1)
        assert estimate(phase_of(other, "2")).remaining_s == pytest.approx(15, abs=0.01), "three more at its own pace"


def test_without_anything_to_go_by_there_is_no_estimate(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    found = estimate(phase_of(run, "1"))
    assert found.remaining_s is None and found.from_attempts == 0
    assert estimate(phase_of(run, "2")).elapsed_s == 0
