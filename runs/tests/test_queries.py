"""Looking whether a run can go on costs the same for ten phases and for two hundred."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.services.engine import advance_run
from runs.sweep import refresh_progress, start_ready
from runs.tests.factories import HEAD, Bench, write_pipeline


def run_of(bench: Bench, count: int) -> Any:
    phases = "".join(f"  {number}: {{scripts: [x.slurm], outputs: [x]}}\n" for number in range(1, count + 1))
    files = {"scripts/manifest.yml": f"phases:\n{phases}", "scripts/conductor.yml": None, "scripts/x.slurm": HEAD}
    folder = write_pipeline(bench.folder / f"p{count}", **files)
    (folder / "scripts/conductor.yml").unlink(missing_ok=True)
    return bench.begin(f"run {count}", pipeline=bench.add_pipeline(folder, f"p{count}"), species=[])


def queries(act: Any, *args: Any) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        act(*args)
    return len(captured)


def test_advance_is_constant(bench: Bench) -> None:
    few, many = run_of(bench, 10), run_of(bench, 200)
    counts = queries(advance_run, few.pk), queries(advance_run, many.pk)
    assert counts[0] == counts[1] <= 6


def test_a_sweep_with_nothing_to_do_is_one_or_two_queries(bench: Bench) -> None:
    run = run_of(bench, 10)
    bench.drive()
    run.refresh_from_db()
    assert run.phases.get(key="1").state == "failed"
    assert queries(start_ready) <= 2
    assert queries(refresh_progress) == 1


@pytest.mark.parametrize("count", [10, 50])
def test_creating_a_run_does_not_cost_a_query_a_phase(bench: Bench, count: int) -> None:
    assert queries(run_of, bench, count) < 60
