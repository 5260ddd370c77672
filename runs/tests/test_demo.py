"""The bundled pipeline in its tiny variant, driven through all its gates, with real pictures."""

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from gates.models import Evidence, Gate
from gates.protocols import protocol_for
from jobs.models import Job
from runs.models import Run
from runs.states import RunState
from runs.tests.factories import Bench, phase_of, states

DEMO = Path(settings.BASE_DIR) / "pipelines" / "demo_tomo"


def answer_as_suggested(bench: Bench, gate: Gate, **changes: Any) -> Gate:
    answers = {name: value for name, value in gate.suggestion.items() if name != "items"}
    form = protocol_for(gate).form(gate, answers | changes)
    assert form.is_valid(), form.errors
    return bench.answer(gate, "approve", **answers | changes)


@pytest.mark.demo
@pytest.mark.slow
@pytest.mark.skipif(not (DEMO / "scripts/manifest.yml").exists(), reason="the demo pipeline isn't in this checkout")
def test_the_tiny_demo_goes_through_all_its_gates(bench: Bench, settings: Any) -> None:
    settings.PIPELINE_ROOTS = [DEMO.parent]
    pipeline = bench.add_pipeline(DEMO, "demo")
    run = bench.begin("tiny demo", pipeline=pipeline, preset="tiny", species=["alpha"])

    setup = Gate.objects.get(key="setup")
    assert setup.state == "open" and setup.suggestion["alpha__MIN_SCORE"] == pytest.approx(0.7)
    answer_as_suggested(bench, setup)
    bench.drive()

    alignment = Gate.objects.get(key="alignment")
    assert alignment.state == "open", alignment.error
    judged = {name: row["verdict"] for name, row in alignment.suggestion["series"].items()}
    assert judged["TS_003"] == "bad" and "bad" not in {judged[n] for n in ("TS_001", "TS_002", "TS_004")}
    rows = alignment.suggestion["series"]
    text = protocol_for(alignment).consequence(alignment, {"series": rows})
    assert text == "Keeps 3 tilt series, excludes 1 (TS_003)."
    answer_as_suggested(bench, alignment)
    bench.drive()
    assert (Path(run.work_dir) / "excluded_series.txt").read_text() == "TS_003\n"

    for gate in Gate.objects.filter(key="picks"):
        assert gate.state == "open", gate.error
        assert set(gate.suggestion["series"]) == {"TS_001", "TS_002", "TS_004"}
        answer_as_suggested(bench, gate)
    bench.drive()

    for gate in Gate.objects.filter(key="refine"):
        assert gate.state == "open", gate.error
        answer_as_suggested(bench, gate)
    bench.drive()

    run = Run.objects.get(pk=run.pk)
    assert set(states(run).values()) == {"done"}
    assert run.state == RunState.DONE
    assert phase_of(run, "7", "alpha").items_total == 3
    assert not any(phase.stale_since for phase in run.phases.all())
    assert Evidence.objects.count() > 100
    assert Job.objects.filter(purpose="phase").count() == 3 + 6
