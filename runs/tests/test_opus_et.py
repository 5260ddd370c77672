"""A lab's cryo-ET folder, driven as it is with the overlay that is shipped: phase 1 to M, two species."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from gates.states import GateState
from jobs.models import Job
from jobs.states import JobState
from record.models import Event
from runs.models import Run, TiltSeries
from runs.pipeline.load import load_pipeline
from runs.qc.tests.realdata import REAL_MANIFEST
from runs.services.preflight import last_findings
from runs.states import RunState
from runs.tests.factories import Bench, states
from runs.tests.opus_et.folder import SPECIES, write_data, write_folder, write_tools
from runs.tests.opus_et.seeing import EXCLUDED, answers_to, check_outcome

SHARED = ["1", "2", "3a", "3b", "3.5", "4", "5a", "5b"]
LANE = [
    "6a",
    "6b",
    "6c",
    "6d",
    "6e",
    "6f",
    "6g",
    "7",
    "8a",
    "8b",
    "analysis",
    "selection",
    "halves",
    "8c-1",
    "8c-2",
    "8d",
]
POPULATION = ["Ma", "Mb", "Mc", "Md", "Me"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "lab", write_data(tmp_path / "data"), write_tools(tmp_path / "tools"))


def test_the_folder_is_read_with_the_overlay_that_is_shipped(folder: Path) -> None:
    spec = load_pipeline(folder)

    assert [phase.key for phase in spec.phases] == [*SHARED, *LANE, *POPULATION]
    assert set(spec.groups) == {"3", "5", "6", "8", "M"}
    assert {spec.by_key[key].group for key in ("8a", "8c-1", "8d")} == {"8"}
    assert (spec.by_key["3.5"].group, spec.by_key["3.5"].needs) == ("", ("3b",))
    assert spec.by_key["8c-1"].needs == spec.by_key["8c-2"].needs == ("halves",)
    assert spec.by_key["8d"].needs == ("8c-1", "8c-2")
    assert [spec.by_key[f"8c-{i}"].exports["FIXED_SUBSET_LABEL"] for i in (1, 2)] == ["1", "2"]
    assert {key for key in POPULATION if spec.by_key[key].per_species} == {"Mb", "Me"}
    assert spec.by_key["7"].outputs == ("warp_tiltseries/${TM_LABEL}_matching.star", "${DATADIR}/TS_XXX/*.mrc")
    assert spec.by_key["Ma"].outputs == ("m/${POPULATION_NAME}.population",)
    assert all(not spec.by_key[key].unchecked for key in ("3.5", "4", "5a"))


@pytest.mark.skipif(
    not REAL_MANIFEST.exists(), reason=f"the real manifest isn't there ({REAL_MANIFEST.name} of the shared data)"
)
def test_a_real_manifest_is_read_with_it_too(folder: Path) -> None:
    text = REAL_MANIFEST.read_text()
    (folder / "scripts/manifest.yml").write_text(text)
    names = sorted(set(re.findall(r"^ +- ([A-Z][A-Z0-9_]+)$", text, re.MULTILINE)))
    with (folder / "pipeline.conf").open("a") as conf:
        conf.write("".join(f'{name}="${{{name}:-1}}"\n' for name in names))

    spec = load_pipeline(folder)

    assert [phase.key for phase in spec.phases] == [*SHARED, *LANE, *POPULATION]
    assert not [output for phase in spec.phases for output in phase.unchecked]


def begin(bench: Bench, folder: Path, **changes: Any) -> Run:
    pipeline = bench.add_pipeline(folder, "opus-et")
    return bench.begin(pipeline=pipeline, name="tomo", species=list(SPECIES), **changes)


def test_from_phase_1_to_m(bench: Bench, folder: Path) -> None:
    run = begin(bench, folder)
    for _ in range(20):
        bench.drive()
        gates = list(Gate.objects.filter(state=GateState.OPEN))
        if not gates:
            break
        for gate in gates:
            answers, reason = answers_to(gate)
            bench.answer(gate, reason=reason, **answers)

    run = Run.objects.get(pk=run.pk)
    assert run.state == RunState.DONE, reasons(run)
    assert {each.status for each in last_findings(run)} == {"ok"}, "looked at by itself, before the settings were asked"
    assert TiltSeries.objects.get(name=EXCLUDED).excluded_by is not None
    check_outcome(Path(run.work_dir), SPECIES)
    check_jobs(run)


def check_jobs(run: Run) -> None:
    """Which half is which stands in the environment alone, and the seed is that which the result names."""
    twins = Job.objects.filter(script_name="train_opuset_fixed.slurm")
    assert sorted(job.environment["FIXED_SUBSET_LABEL"] for job in twins) == ["1", "1", "2", "2"]
    assert "FIXED_SUBSET_LABEL" not in (Path(run.work_dir) / ".conductor/pipeline/species_fas.conf").read_text()
    assert states(run)["8a (fas)"] == "skipped"
    for label in SPECIES:
        jobs = Job.objects.filter(script_name="split_halves.slurm")
        [job] = [job for job in jobs if job.environment["SPECIES_CONF"].endswith(f"species_{label}.conf")]
        facts = json.loads((Path(run.work_dir) / f"warp_tiltseries/{label}_matching_subset1.json").read_text())
        assert str(facts["seed"]) == job.environment["HALVES_SEED"]
    moved = Event.objects.filter(kind="series.move", root_uuid=run.uuid)
    assert [event.data["moved"] for event in moved] == [
        [[f"tomostar/{EXCLUDED}.tomostar", f"tomostar/excluded/{EXCLUDED}.tomostar"]]
    ]


def reasons(run: Run) -> str:
    """Which phases have not been done and why, and what failed jobs had to say."""
    failed = Job.objects.filter(root_uuid=run.uuid, state=JobState.FAILED)
    said = [f"{job.name}: {Path(job.stderr_path).read_text()[-500:]}" for job in failed]
    left = [f"{each.label} {each.state}: {each.reason}" for each in run.phases.all() if each.state != "done"]
    return "\n".join([*said, *left])
