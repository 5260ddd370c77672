"""What an overlay adds to a manifest: phases, copies, values, tests of prose, places for what is left out."""

from pathlib import Path

import pytest

from runs.pipeline.faults import PipelineFaults
from runs.pipeline.load import load_pipeline
from runs.pipeline.spec import CheckSpec, HalvesSpec, PipelineSpec
from runs.tests.factories import HEAD, MANIFEST, OVERLAY, write_pipeline

M, OV = "scripts/manifest.yml", "scripts/conductor.yml"
PARTED = MANIFEST + (
    "  M:\n    description: Refine\n    requires_species: true\n    scripts: [pick.slurm, average.slurm]\n"
)


def load(folder: Path, overlay: str, manifest: str = MANIFEST) -> PipelineSpec:
    return load_pipeline(write_pipeline(folder, **{M: manifest, OV: overlay, "scripts/extra.slurm": HEAD}))


def keys(spec: PipelineSpec) -> list[str]:
    return [phase.key for phase in spec.phases]


def test_a_phase_stands_after_the_one_it_names(tmp_path: Path) -> None:
    overlay = (
        "adds:\n  look: {description: Look, after: 3a, requires_species: true, scripts: [extra.slurm]}\n"
        "  think: {description: Think, after: 3a, requires_species: true, scripts: [extra.slurm]}\n"
        "  end: {description: End, scripts: [extra.slurm]}\n"
    )
    spec = load(tmp_path, overlay)
    assert keys(spec) == ["1", "2", "3a", "look", "think", "3b", "end"]
    assert [spec.by_key[key].needs for key in ("look", "think", "3b")] == [("3a",), ("look",), ("think",)]
    assert PipelineSpec.from_json(spec.to_json()) == spec


def test_parts_that_an_overlay_adds_stand_in_place_of_the_whole(tmp_path: Path) -> None:
    overlay = (
        "adds:\n  Ma: {description: Once, joins: true, requires_species: true, scripts: [pick.slurm]}\n"
        "  Mb: {description: Each, requires_species: true, scripts: [average.slurm]}\n"
    )
    spec = load(tmp_path, overlay, PARTED)
    assert keys(spec)[-2:] == ["Ma", "Mb"] and spec.groups == {"M": "Refine"}
    assert [(each.per_species, each.joins, each.group) for each in spec.phases[-2:]] == [
        (False, True, "M"),
        (True, False, "M"),
    ]


def test_a_script_of_a_whole_that_no_part_runs_is_a_fault(tmp_path: Path) -> None:
    overlay = "adds:\n  Ma: {description: Once, scripts: [pick.slurm]}\n"
    with pytest.raises(PipelineFaults) as caught:
        load(tmp_path, overlay, PARTED)
    [fault] = caught.value.faults
    line = PARTED.splitlines().index("    scripts: [pick.slurm, average.slurm]") + 1
    expected = "phase 'M' is run in its parts (Ma), and none of them runs 'average.slurm'"
    assert str(fault) == f"{M}:{line}: {expected}"


def test_copies_stand_side_by_side_each_with_its_value(tmp_path: Path) -> None:
    overlay = (
        'phases:\n  3a: {copies: [{HALF: 1}, {HALF: 2}], outputs: ["picks/${TM_LABEL}/${HALF}.star"]}\n'
        "gates:\n  - {key: look, protocol: generic, after: 3b}\n"
    )
    spec = load(tmp_path, overlay)
    assert keys(spec) == ["1", "2", "3a-1", "3a-2", "3b"]
    assert spec.by_key["3a-1"].needs == spec.by_key["3a-2"].needs == ("2",)
    assert spec.by_key["3b"].needs == ("3a-1", "3a-2")
    assert [spec.by_key[key].exports for key in ("3a-1", "3a-2")] == [{"HALF": "1"}, {"HALF": "2"}]
    assert spec.by_key["3a-2"].title == "Pick (2 of 2)"


def test_prose_is_tested_as_the_overlay_says_and_the_rest_is_not_checked(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("[recon/TS_XXX.txt, ", "[recon/TS_XXX.txt, 'm/<population>.txt', 'm/<other>.txt', ")
    overlay = (
        "placeholders: {population: NUM_SERIES}\n"
        'phases:\n  2:\n    checks: [{of: "Updated settings (prose)", file: a.settings, matches: done}]\n'
    )
    phase = load(tmp_path, overlay, manifest).by_key["2"]
    assert phase.checks == (CheckSpec("Updated settings (prose)", "a.settings", "done"),)
    assert phase.outputs == ("recon/TS_XXX.txt", "m/${NUM_SERIES}.txt")
    assert phase.unchecked == ("m/<other>.txt",)


def test_halves_are_split_by_ourselves(tmp_path: Path) -> None:
    overlay = (
        "adds:\n  halves:\n    description: Halves\n    after: 3a\n    requires_species: true\n"
        '    halves: {of: "s_${TM_LABEL}.star", first: a.star, second: b.star}\n    aside: [old_*.pkl]\n'
    )
    phase = load(tmp_path, overlay).by_key["halves"]
    assert phase.halves == HalvesSpec("s_${TM_LABEL}.star", "a.star", "b.star")
    assert (phase.scripts, phase.aside) == (("split_halves.slurm",), ("old_*.pkl",))


def test_tools_of_conda_environments_are_not_looked_up(tmp_path: Path) -> None:
    manifest = MANIFEST.replace(
        "    scripts: [import.slurm]", "    scripts: [import.slurm]\n    required_tools: [Warp]"
    )
    in_conda = manifest.replace("required_tools: [Warp]", "required_tools: [Warp]\n    required_conda: [WARP_ENV]")
    assert load(tmp_path / "a", OVERLAY, manifest).by_key["1"].required_tools == ("Warp",)
    assert load(tmp_path / "b", OVERLAY, in_conda).by_key["1"].required_tools == ()
    assert load(tmp_path / "c", OVERLAY, in_conda).by_key["1"].environment_tools == ("Warp",)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            M,
            MANIFEST.replace("NUM_SERIES]", "NUM_SERIES, NOPE]"),
            f"{M}:6: phase '1': no conf file of this pipeline has",
        ),
        (
            M,
            MANIFEST.replace("picks/${TM_LABEL}", "picks/${NOPE}"),
            f"{M}:18: phase '3a': no conf file of this pipeline",
        ),
        (
            OV,
            "adds:\n  2: {description: x, scripts: [pick.slurm]}\n",
            f"{OV}:2: phase '2' stands in the manifest already",
        ),
        (OV, "adds:\n  x: {description: x}\n", f"{OV}:2: phase 'x' must have either scripts or halves"),
        (
            OV,
            "adds:\n  x: {description: x, after: 9, scripts: [pick.slurm]}\n",
            f"{OV}:2: no phase '9' in the manifest",
        ),
        (
            OV,
            "adds:\n  x:\n    description: x\n    scripts: [gone.slurm]\n",
            f"{OV}:4: script 'gone.slurm' isn't there",
        ),
        (OV, "phases:\n  1: {exports: {X: {gate: g, answer: a}}}\n", f"{OV}:2: X: there is no gate 'g'"),
        (OV, "phases:\n  1: {checks: [{of: x, file: y, matches: z}]}\n", f"{OV}:2: 'x' is not an output of phase '1'"),
        (
            OV,
            "phases:\n  2:\n    checks:\n      - {of: Updated settings (prose), file: a, matches: '('}\n",
            f"{OV}:4: '(' is not a regular expression",
        ),
        (
            OV,
            "phases:\n  2:\n    checks:\n      - {of: Updated settings (prose), file: a}\n",
            f"{OV}:4: a check needs either matches or newer_than",
        ),
        (OV, "phases:\n  1: {aside: [/etc/*]}\n", f"{OV}:2: '/etc/*' is not a pattern below the work folder"),
        (OV, "excludes:\n  - {files: a/*.star, to: b}\n", f"{OV}:2: 'a/*.star' must be one file's path"),
        (OV, "excludes:\n  - {files: a/TS_XXX.star, to: a}\n", f"{OV}:2: 'a' must be another folder"),
    ],
)
def test_each_fault_names_its_place(tmp_path: Path, name: str, text: str, expected: str) -> None:
    with pytest.raises(PipelineFaults) as caught:
        load_pipeline(write_pipeline(tmp_path, **{name: text}))
    faults = [str(fault) for fault in caught.value.faults]
    assert any(fault.startswith(expected) for fault in faults), faults
