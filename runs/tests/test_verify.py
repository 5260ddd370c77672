"""An exit code of 0 is not enough: outputs are looked for, and looked into."""

import os
from datetime import UTC, datetime
from pathlib import Path

import mrcfile
import numpy as np
import pytest

from jobs.shells import FileFact, LocalShell
from record.errors import BadInput
from runs.pipeline.outputs import expand, is_checkable
from runs.pipeline.spec import CheckSpec, GateSpec, PhaseSpec
from runs.services.control import retry_phase
from runs.services.verify import Look, count_done, find_series, mrc_faults, verify_outputs
from runs.tests.factories import HEAD, RECON, Bench, phase_of, states, trace, write_pipeline

SHELL = LocalShell()


def look(folder: Path, *outputs: str, series: list[str] | None = None, **changes: object) -> Look:
    phase = PhaseSpec("3", "Reconstruct", False, ("x.slurm",), outputs=outputs, items=str(changes.pop("items", "")))
    return Look(str(folder), phase, {"LABEL": "ribo", "EMPTY": "", "BAD": "../x"}, series or [], **changes)  # type: ignore[arg-type]


def write_mrc(path: Path) -> Path:
    with mrcfile.new(path) as mrc:
        mrc.set_data(np.zeros((4, 5, 6), dtype=np.int16))
    return path


def test_missing_and_empty_outputs_are_named(tmp_path: Path) -> None:
    (tmp_path / "a_ribo.txt").write_text("x")
    (tmp_path / "TS_001.out").write_text("")
    found = verify_outputs(SHELL, look(tmp_path, "a_${LABEL}.txt", "TS_XXX.out", series=["TS_001", "TS_002"]))

    assert found.problems == ["TS_001.out is empty", "TS_002.out is missing"]
    assert (found.done, found.total) == (0, 2)
    assert found.outputs == {"": ["a_ribo.txt"], "TS_001": ["TS_001.out"], "TS_002": []}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\xff.out", "a\ufffd.out"),
        (b"a\x1b[2J.out", "a.out"),
        ("a\u202eb.out".encode(), "ab.out"),
        (b"a\nb.out", "a\nb.out"),
    ],
)
def test_a_name_that_no_database_keeps_is_a_problem(tmp_path: Path, name: bytes, shown: str) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_text("x")
    gate = GateSpec("g", "generic", "3", "after", "Look", files={"all": "*.out"})
    found = verify_outputs(SHELL, look(tmp_path, "*.out", gates=(gate,)))
    assert found.problems == [f"{shown} has unseen or broken characters in its name: rename it"]
    assert (found.outputs, found.files) == ({"": [shown]}, {"g": {}})


def test_a_truncated_mrc_is_a_problem(tmp_path: Path) -> None:
    path = write_mrc(tmp_path / "TS_001.mrc")
    assert verify_outputs(SHELL, look(tmp_path, "TS_XXX.mrc", series=["TS_001"])).problems == []

    path.write_bytes(path.read_bytes()[:-20])
    [problem] = verify_outputs(SHELL, look(tmp_path, "TS_XXX.mrc", series=["TS_001"])).problems
    assert problem == "TS_001.mrc is cut off: 1244 bytes, and by its header it has 1264"


@pytest.mark.parametrize(("data", "words"), [(b"x" * 100, "100 bytes"), (b"\xff" * 2000, "not an MRC file")])
def test_what_is_no_mrc_is_said(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "a.mrc"
    path.write_bytes(data)
    assert words in mrc_faults(SHELL, FileFact(str(path), len(data), datetime.now(UTC)))[0]


def test_big_endian_and_extended_headers_are_understood(tmp_path: Path) -> None:
    header = np.zeros(256, dtype=">i4")
    header[:4], header[23] = (10, 10, 2, 1), 512
    path = tmp_path / "a.mrc"
    path.write_bytes(header.tobytes() + bytes(512 + 400))
    assert mrc_faults(SHELL, FileFact(str(path), path.stat().st_size, datetime.now(UTC))) == []
    assert "cut off" in mrc_faults(SHELL, FileFact(str(path), path.stat().st_size - 1, datetime.now(UTC)))[0]


def test_patterns_that_cannot_be_filled_are_left_out(tmp_path: Path) -> None:
    assert expand("x_${EMPTY}.txt", {"EMPTY": ""}) == "x_.txt"
    assert expand("x_${NOPE}.txt", {}) is None
    assert expand("x_${BAD}.txt", {"BAD": "../../etc"}) is None
    assert expand("x_${BAD}.txt", {"BAD": "*"}) is None
    assert expand("average/", {}) == "average/*"
    assert not any(map(is_checkable, ["Updated x", "m/<population>.p", "a.xml (with data)", "/etc/x", "a/../../b"]))
    assert verify_outputs(SHELL, look(tmp_path, "x_${BAD}.txt", "${NOPE}.txt")).problems == []


def test_the_files_that_gates_look_at_are_found(tmp_path: Path) -> None:
    (tmp_path / "TS_001_10.00Apx.mrc").write_text("x")
    (tmp_path / "all.tsv").write_text("x")
    gate = GateSpec("look", "p", "3", "after", "Look", files={"t": "TS_XXX_*Apx.mrc", "r": "all.tsv", "n": "none.txt"})
    found = verify_outputs(SHELL, look(tmp_path, series=["TS_001", "TS_002"], gates=[gate]))
    assert found.files == {"look": {"t": {"TS_001": "TS_001_10.00Apx.mrc"}, "r": {"": "all.tsv"}}}


def test_progress_is_counted_by_series(tmp_path: Path) -> None:
    for name in ("TS_001", "TS_002"):
        (tmp_path / f"{name}.out").write_text("x")
    what = look(tmp_path, "all.txt", "TS_XXX.out", "TS_XXX.log", series=["TS_001", "TS_002", "TS_003"])
    assert count_done(SHELL, what) == (0, 3)
    what = look(tmp_path, "all.txt", "TS_XXX.log", series=["TS_001", "TS_002", "TS_003"], items="TS_XXX.out")
    assert count_done(SHELL, what) == (2, 3)


def test_names_of_series(tmp_path: Path) -> None:
    for name in ("TS_002", "TS_001"):
        (tmp_path / f"{name}.tomostar").write_text("x")
    assert find_series(SHELL, str(tmp_path), "*.tomostar") == ["TS_001", "TS_002"]
    (tmp_path / "bad name.tomostar").write_text("x")
    with pytest.raises(BadInput, match="'bad name' can't be used"):
        find_series(SHELL, str(tmp_path), "*.tomostar")


def test_exit_code_0_with_missing_outputs_fails_and_a_retry_goes_on(bench: Bench) -> None:
    half = RECON.replace("$(series)", "$(series | head -${HALF:-2})")
    write_pipeline(bench.folder / "pipeline", **{"scripts/recon.slurm": HEAD + half})
    run = bench.begin()
    bench.drive()

    phase = phase_of(run, "2")
    assert phase.state == "failed"
    assert phase.reason == "The script ended with exit code 0, but recon/TS_003.txt is missing."
    assert (phase.items_done, phase.items_total, phase.completion) == (2, 3, "partial")
    assert states(run)["3a (alpha)"] == "pending"

    (bench.folder / "work/first/recon/TS_003.txt").write_text("32\n")
    retry_phase(phase=phase, author=bench.operator)
    bench.drive()
    phase = phase_of(run, "2")
    assert (phase.state, phase.attempt, phase.items_at_start) == ("checkpoint", 2, 3)
    assert trace(run).count("recon TS_001") == 1, "what was there is not done again"


def test_a_script_that_fails_fails_its_phase(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"scripts/recon.slurm": "#!/bin/bash\nexit 3\n"})
    run = bench.begin()
    bench.drive()
    phase = phase_of(run, "2")
    assert phase.state == "failed" and "recon.slurm failed: exit code 3" in phase.reason


def test_no_tilt_series_at_all_is_a_failure(bench: Bench) -> None:
    run = bench.begin(conf={"NUM_SERIES": 0})
    bench.drive()
    assert phase_of(run, "1").reason.endswith("tomostar/*.tomostar is missing.")


def test_a_line_end_is_no_part_of_a_series_name(tmp_path: Path) -> None:
    (tmp_path / "TS_001\n.mdoc").write_text("x")
    with pytest.raises(BadInput, match="can't be used"):
        find_series(SHELL, str(tmp_path), "*.mdoc")


def test_files_of_a_series_are_not_those_of_one_whose_name_begins_alike(tmp_path: Path) -> None:
    (tmp_path / "Position_1_2_4.00Apx.txt").write_text("x")
    names = ["Position_1", "Position_1_2"]
    found = verify_outputs(SHELL, look(tmp_path, "TS_XXX_*Apx.txt", series=names))
    assert found.problems == ["Position_1_*Apx.txt is missing"] and (found.done, found.total) == (1, 2)

    excluded = look(tmp_path, "TS_XXX_*Apx.txt", series=names[:1], excluded=names[1:])
    assert verify_outputs(SHELL, excluded).problems == ["Position_1_*Apx.txt is missing"]
    assert count_done(SHELL, excluded) == (0, 1)


def test_what_is_written_in_prose_is_tested_as_the_overlay_says(tmp_path: Path) -> None:
    aligned = CheckSpec("x.xml (with alignment data)", "TS_XXX.xml", matches="<AxisOffsetX>[^<]*[1-9]")
    phase = PhaseSpec("4", "Import", False, ("x.slurm",), checks=(aligned,))
    wanted = Look(str(tmp_path), phase, {}, ["TS_1", "TS_2", "TS_3"])
    (tmp_path / "TS_1.xml").write_text("<AxisOffsetX>0\n3.5</AxisOffsetX>")
    (tmp_path / "TS_2.xml").write_text("<AxisOffsetX>0\n0</AxisOffsetX><Dose>7</Dose>", encoding="utf-16")

    found = verify_outputs(SHELL, wanted)
    assert found.problems == ["TS_2.xml has nothing in it of 'x.xml (with alignment data)'", "TS_3.xml is missing"]
    assert (found.done, found.total) == (1, 3)

    for name in ("TS_2", "TS_3"):
        (tmp_path / f"{name}.xml").write_text("<AxisOffsetX>0\n3.5</AxisOffsetX>", encoding="utf-16")
    assert verify_outputs(SHELL, wanted).problems == []


def test_what_must_have_been_done_since_is_newer(tmp_path: Path) -> None:
    updated = CheckSpec("Updated settings", "a.settings", newer_than="*_ali.mrc")
    phase = PhaseSpec("3.5", "Update", False, ("x.slurm",), checks=(updated,))
    for name, at_s in (("a.settings", 1000), ("TS_1_ali.mrc", 2000)):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (at_s, at_s))
    wanted = Look(str(tmp_path), phase, {}, [])

    expected = "a.settings is older than TS_1_ali.mrc, so that 'Updated settings' is not done"
    found = verify_outputs(SHELL, wanted)
    assert found.problems == [expected] and (found.done, found.total) == (0, 1)
    os.utime(tmp_path / "a.settings", (3000, 3000))
    found = verify_outputs(SHELL, wanted)
    assert (found.problems, found.done, found.total) == ([], 1, 1)


def test_what_nothing_was_looked_for_is_said(tmp_path: Path) -> None:
    found = verify_outputs(SHELL, look(tmp_path, "${NOWHERE}/x.txt"))
    assert (found.problems, found.unchecked, found.total) == ([], ["${NOWHERE}/x.txt"], 0)
