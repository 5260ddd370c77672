"""A lab's cryo-ET folder, driven as it is with the overlay that is shipped: phase 1 to M, two species."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings

from gates.models import Gate
from gates.states import GateState
from jobs.models import Job
from jobs.states import JobState
from runs.models import Run, TiltSeries
from runs.pipeline.load import load_pipeline
from runs.states import RunState
from runs.tests.factories import Bench, states, trace
from runs.tests.opus_et import tools
from runs.tests.opus_et.folder import SERIES, SPECIES, write_data, write_folder, write_tools

REAL = Path(settings.BASE_DIR).parents[1] / "shared/realdata/cryoet/opus-et-agent/manifest.yml"
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


@pytest.mark.skipif(not REAL.exists(), reason=f"the real manifest isn't there ({REAL.name} of the shared data)")
def test_a_real_manifest_is_read_with_it_too(folder: Path) -> None:
    text = REAL.read_text()
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

    bench.approve("setup", **Gate.objects.get(key="setup").suggestion)
    bench.drive()
    assert {states(run)[key] for key in SHARED[:-1]} == {"done"}, reasons(run)
    gate = Gate.objects.get(key="alignment_qc", state=GateState.OPEN)
    rows = gate.suggestion["series"]
    assert set(rows) == set(SERIES)
    rows |= {name: {"verdict": "good", "keep": True, "note": ""} for name in SERIES}
    rows["TS_03"] = {"verdict": "bad", "keep": False, "note": "drift"}
    bench.answer(gate, reason="TS_03 drifts", series=rows)
    pass_lanes(bench)

    run = Run.objects.get(pk=run.pk)
    assert run.state == RunState.DONE, reasons(run)
    work = Path(run.work_dir)
    assert TiltSeries.objects.get(name="TS_03").excluded_by is not None
    assert not list(work.glob("template_matching/*/jobs/TS_03")) and not list(work.glob("subtomo_*/TS_03"))
    assert (work / "tomostar/excluded/TS_03.tomostar").exists()
    assert trace(run).count("warp_m_setup ribosome") == 1 and trace(run).count("warp_m_refine ribosome") == 1
    for label in SPECIES:
        check_species(work, label)
    check_jobs(run)


def pass_lanes(bench: Bench) -> None:
    """Answer whatever is asked of the species, until nothing moves any more."""
    answers: dict[str, dict[str, Any]] = {
        "tm_params": {"remark": ""},
        "state_selection": {"clusters": "0 2", "remark": ""},
        "refine": {"remark": ""},
    }
    for _ in range(20):
        bench.drive()
        gates = list(Gate.objects.filter(state=GateState.OPEN))
        if not gates:
            return
        for gate in gates:
            bench.answer(gate, **answers.get(gate.key, gate.suggestion))


def check_species(work: Path, label: str) -> None:
    """Half-sets that share no particle and miss none; half-maps that are the phantom, each with noise of its own."""
    import mrcfile

    halves = [tools.rows_of(work / f"warp_tiltseries/{label}_matching_subset{half}.star") for half in "12"]
    selected = tools.rows_of(work / f"sel_{label}.star")
    assert sorted([*halves[0], *halves[1]]) == sorted(selected) and abs(len(halves[0]) - len(halves[1])) <= 1
    facts = json.loads((work / f"warp_tiltseries/{label}_matching_subset1.json").read_text())
    jobs = Job.objects.filter(script_name="split_halves.slurm")
    [job] = [job for job in jobs if job.environment["SPECIES_CONF"].endswith(f"species_{label}.conf")]
    assert str(facts["seed"]) == job.environment["HALVES_SEED"] and sum(facts["particles"]) == len(selected)
    maps = [mrcfile.read(work / f"opuset/{label}/{label}_half{half}.mrc") for half in "12"]
    truth = tools.phantom(label)
    noise = [np.std(half - truth) for half in maps]
    assert noise == pytest.approx([tools.NOISE / np.sqrt(2)] * 2, rel=0.1), "the mean of two parts"
    assert np.corrcoef((maps[0] - truth).ravel(), (maps[1] - truth).ravel())[0, 1] < 0.1
    assert (work / f"warp_tiltseries/{label}_matching_refined.star").exists()


def check_jobs(run: Run) -> None:
    twins = Job.objects.filter(script_name="train_opuset_fixed.slurm").order_by("environment__FIXED_SUBSET_LABEL")
    assert sorted(job.environment["FIXED_SUBSET_LABEL"] for job in twins) == ["1", "1", "2", "2"]
    conf = (Path(run.work_dir) / ".conductor/pipeline/species_fas.conf").read_text()
    assert "FIXED_SUBSET_LABEL" not in conf
    assert states(run)["8a (fas)"] == "skipped"


def reasons(run: Run) -> str:
    """Which phases have not been done and why, and what failed jobs had to say."""
    failed = Job.objects.filter(root_uuid=run.uuid, state=JobState.FAILED)
    said = [f"{job.name}: {Path(job.stderr_path).read_text()[-500:]}" for job in failed]
    left = [f"{each.label} {each.state}: {each.reason}" for each in run.phases.all() if each.state != "done"]
    return "\n".join([*said, *left])
