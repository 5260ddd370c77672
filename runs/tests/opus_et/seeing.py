"""What a person would answer at the gates of the stand-ins' run, and what must have come of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gates.models import Gate
from runs.tests.opus_et import tools

EXCLUDED = "TS_03"
ANSWERS: dict[str, dict[str, Any]] = {
    "tm_params": {"remark": ""},
    "state_selection": {"clusters": "0 2", "remark": ""},
    "refine": {"remark": ""},
}


def answers_to(gate: Gate) -> tuple[dict[str, Any], str]:
    """(answers, reason): one tilt series is left out, two clusters go on, the rest is as suggested."""
    if gate.key == "alignment_qc":
        rows = {name: {"verdict": "good", "keep": True, "note": ""} for name in gate.suggestion["series"]}
        return {"series": rows | {EXCLUDED: {"verdict": "bad", "keep": False, "note": "drift"}}}, f"{EXCLUDED} drifts"
    return ANSWERS.get(gate.key, gate.suggestion), ""


def check_outcome(work: Path, labels: tuple[str, ...]) -> None:
    """The excluded series is nowhere after its gate, M was set up and refined once, and each species is what it was."""
    assert (work / f"tomostar/excluded/{EXCLUDED}.tomostar").exists()
    assert not list(work.glob(f"template_matching/*/jobs/{EXCLUDED}")) and not list(work.glob(f"subtomo_*/{EXCLUDED}"))
    done = (work / "trace").read_text().splitlines()
    assert sum(line.startswith("warp_m_setup") for line in done) == 1
    assert sum(line.startswith("warp_m_refine") for line in done) == 1
    for label in labels:
        assert sorted(line for line in done if line.startswith(f"train_opuset_fixed {label}")) == [
            f"train_opuset_fixed {label} 1",
            f"train_opuset_fixed {label} 2",
        ]
        check_species(work, label)


def check_species(work: Path, label: str) -> None:
    """Half-sets that share no particle and miss none; half-maps that are the phantom, each with noise of its own."""
    import mrcfile

    halves = [tools.rows_of(work / f"warp_tiltseries/{label}_matching_subset{half}.star") for half in "12"]
    selected = tools.rows_of(work / f"sel_{label}.star")
    assert sorted([*halves[0], *halves[1]]) == sorted(selected) and abs(len(halves[0]) - len(halves[1])) <= 1
    facts = json.loads((work / f"warp_tiltseries/{label}_matching_subset1.json").read_text())
    assert sum(facts["particles"]) == len(selected)
    maps = [mrcfile.read(work / f"opuset/{label}/{label}_half{half}.mrc") for half in "12"]
    truth = tools.phantom(label)
    noise = [np.std(half - truth) for half in maps]
    assert noise == pytest.approx([tools.NOISE / np.sqrt(2)] * 2, rel=0.1), "the mean of two parts"
    assert np.corrcoef((maps[0] - truth).ravel(), (maps[1] - truth).ravel())[0, 1] < 0.1
    assert list(work.glob(f"m/species/{label}_*/{label}_mask.mrc"))
    assert (work / f"warp_tiltseries/{label}_matching_refined.star").exists()
    assert list(work.glob(f".conductor/superseded/halves_{label}.*/subtomo_{label}/*pose*.pkl")), "moved, not deleted"
