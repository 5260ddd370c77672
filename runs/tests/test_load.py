"""Everything that is wrong with a pipeline is said, with its file and line, before anything is started."""

import os
import re
from pathlib import Path

import pytest

from runs.pipeline.faults import PipelineFaults
from runs.pipeline.load import load_pipeline
from runs.pipeline.spec import PipelineSpec
from runs.qc.tests.realdata import REAL_MANIFEST
from runs.tests.factories import MANIFEST, OVERLAY, write_pipeline

M, OV = "scripts/manifest.yml", "scripts/conductor.yml"


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(PipelineFaults) as caught:
        load_pipeline(folder)
    return [str(fault) for fault in caught.value.faults]


def test_a_sound_pipeline_is_read_as_it_is_written(tmp_path: Path) -> None:
    spec = load_pipeline(write_pipeline(tmp_path))

    assert [phase.key for phase in spec.phases] == ["1", "2", "3a", "3b"]
    assert spec.by_key["3a"].needs == ("2",)
    assert spec.by_key["2"].outputs == ("recon/TS_XXX.txt",)
    assert spec.by_key["2"].unchecked == ("Updated settings (prose)",)
    assert spec.defaults["NUM_SERIES"] == "3"
    assert spec.preset("small").species == {"alpha": {"MIN_SCORE": "0.4"}}
    assert PipelineSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (M, "phases: [", f"{M}:1: not YAML"),
        (M, "", f"{M}: the file is empty"),
        (
            M,
            "phases:\n  1: {scripts: [import.slurm]}\n  1: {scripts: [recon.slurm]}\n",
            f"{M}:3: '1' stands here twice",
        ),
        (M, "phases:\n  1:\n    scripts: import.slurm\n", f"{M}:3: phases.1.scripts: 'import.slurm' is not of type"),
        (M, "phases:\n  1:\n    description: x\n", f"{M}:2: phases.1: 'scripts' is a required property"),
        (M, "phases:\n  1:\n    scripts: [import.slurm]\n    x: !!python/object:os.system y\n", f"{M}:4"),
        (M, b"phases:\n  1: {description: \xff}\n", f"{M}:2: not UTF-8 text"),
        (M, MANIFEST.replace("import.slurm", "gone.slurm"), f"{M}:5: script 'gone.slurm' isn't there"),
        (M, MANIFEST.replace("import.slurm", "../../x.sh"), f"{M}:5: script '../../x.sh' lies outside"),
        (M, MANIFEST.replace("import.slurm", "/bin/sh"), f"{M}:5: script '/bin/sh' lies outside"),
        (OV, "order: [1, 2, 9]\n", f"{OV}:1: no phase '9' in the manifest"),
        (OV, "order: [1, 2, 2]\n", f"{OV}:1: phase '2' stands in the order twice"),
        (OV, "needs:\n  1: [3b]\n", f"{OV}:2: these phases wait for one another: 1 -> 3b -> 3a -> 2 -> 1"),
        (OV, "needs:\n  1: [1]\n", f"{OV}:2: these phases wait for one another: 1 -> 1"),
        (OV, "needs:\n  2: [x]\n", f"{OV}:2: no phase 'x' in the manifest"),
        (OV, "gates:\n  - {key: a, protocol: nonsense, after: 1}\n", f"{OV}:2: no gate protocol 'nonsense'"),
        (
            OV,
            "gates:\n  - {key: a, protocol: generic, after: 8}\n",
            f"{OV}:2: gate 'a' stands after phase '8', which is not",
        ),
        (OV, "gates:\n  - {key: a, protocol: generic}\n", f"{OV}:2: gate 'a' must stand before a phase or after one"),
        (
            OV,
            "gates:\n  - key: a\n    protocol: generic\n    after: 1\n    policy: {who: nobody}\n",
            f"{OV}:5: gate 'a': who",
        ),
        (
            OV,
            "gates:\n  - key: a\n    protocol: generic\n    after: 1\n    policy: {due_s: 5, on_timeout: perhaps}\n",
            f"{OV}:5: gate 'a': on_timeout says 'perhaps'; there are: block, approve",
        ),
        (
            OV,
            "gates:\n  - {key: a, protocol: alignment_qc, after: 2}\n",
            f"{OV}:2: gate 'a': alignment_qc needs the pattern",
        ),
        (
            OV,
            "gates:\n  - {key: a, protocol: setup, before: 1, options: {x: 1}}\n",
            f"{OV}:2: gate 'a': setup knows no",
        ),
        (
            OV,
            "phases:\n  2: {outputs: [/etc/passwd]}\n",
            f"{OV}:2: '/etc/passwd' is not a pattern below the work folder",
        ),
        (OV, "phases:\n  2: {outputs: [../x]}\n", f"{OV}:2: '../x' is not a pattern below the work folder"),
        (OV, "presets:\n  a:\n    conf: {NOPE: 1}\n", f"{OV}:3: NOPE is not a value of pipeline.conf"),
        (OV, "presets:\n  a:\n    species: {gamma: {X: 1}}\n", f"{OV}:3: no species 'gamma' in this pipeline"),
        (OV, "conf:\n  DIM: {label: x, kind: number, min: 3, max: 2}\n", f"{OV}:2: DIM: min 3 is above max 2"),
        (OV, "conf:\n  NOPE: {label: x, kind: text}\n", f"{OV}:2: NOPE stands in no conf file"),
        (OV, "surprise: 1\n", f"{OV}:1: Additional properties are not allowed"),
        ("pipeline.conf", None, "pipeline.conf: the file isn't there"),
        (M, None, f"{M}: the file isn't there"),
        ("species_a b.conf", "X=1\n", "species_a b.conf: 'a b' can't be a species"),
    ],
)
def test_each_fault_names_its_place(tmp_path: Path, name: str, text: str | bytes | None, expected: str) -> None:
    folder = write_pipeline(tmp_path, **({name: text} if isinstance(text, str | None) else {}))
    if isinstance(text, bytes):
        (folder / name).write_bytes(text)

    assert any(fault.startswith(expected) for fault in faults_of(folder)), faults_of(folder)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("import.slurm", "gone.slurm").replace("pick.slurm", "away.slurm")
    assert len(faults_of(write_pipeline(tmp_path, **{M: manifest}))) == 2


def test_a_script_that_is_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = write_pipeline(tmp_path / "p")
    (folder / "scripts/import.slurm").unlink()
    os.symlink("/bin/sh", folder / "scripts/import.slurm")
    assert "leads out of the pipeline's folder" in faults_of(folder)[0]


@pytest.mark.parametrize("name", [M, OV, "pipeline.conf"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    folder = write_pipeline(tmp_path)
    (folder / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    assert any("it is no ordinary file" in fault for fault in faults_of(folder))


def test_aliases_of_aliases_are_not_followed_without_end(tmp_path: Path) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
    )
    assert "too many aliases" in faults_of(write_pipeline(tmp_path, **{M: bomb}))[0]


def test_numeric_keys_are_names(tmp_path: Path) -> None:
    manifest = MANIFEST.replace("  2:\n", "  3.5:\n")
    overlay = OVERLAY.replace("after: 2", "after: 3.5")
    spec = load_pipeline(write_pipeline(tmp_path, **{M: manifest, OV: overlay}))
    assert [phase.key for phase in spec.phases] == ["1", "3.5", "3a", "3b"]
    assert spec.gates[0].phase == "3.5"


@pytest.mark.skipif(
    not REAL_MANIFEST.exists(), reason=f"the real manifest isn't there ({REAL_MANIFEST.name} of the shared data)"
)
def test_a_real_manifest_loads(tmp_path: Path) -> None:
    text = REAL_MANIFEST.read_text()
    names = re.findall(r"^ +- ([A-Z][A-Z0-9_]+)$", text, re.MULTILINE)
    conf = "".join(f"{name}=1\n" for name in sorted(set(names)))
    folder = write_pipeline(tmp_path, **{M: text, OV: None, "pipeline.conf": conf})
    for word in text.replace("- ", " ").split():
        if word.endswith(".slurm"):
            (folder / "scripts" / word).write_text("#!/bin/bash\n")

    spec = load_pipeline(folder)

    keys = [phase.key for phase in spec.phases]
    assert keys[:6] == ["1", "2", "3a", "3b", "3.5", "4"]
    assert keys[-1] == "M" and "6g" in keys and "8a" in keys
    assert "6" not in keys and "3" not in keys, "phases that are given in parts are run in parts"
    assert spec.by_key["3.5"].unchecked == ("Updated warp_tiltseries.settings",)
    assert spec.by_key["8a"].optional
    assert spec.by_key["M"].needs == ("8c",)


def test_a_conf_that_only_bash_could_tell_is_refused_with_its_lines(tmp_path: Path) -> None:
    conf = "WORK_DIR=\nNUM_SERIES=$(rm -rf /)\nDIM=32\r\nsource other.conf\n"
    with pytest.raises(PipelineFaults) as caught:
        load_pipeline(write_pipeline(tmp_path, **{"pipeline.conf": conf}))
    found = [(fault.file, fault.line) for fault in caught.value.faults]
    assert found == [("pipeline.conf", 2), ("pipeline.conf", 3), ("pipeline.conf", 4)]


def test_a_derived_value_is_a_value_of_the_conf(tmp_path: Path) -> None:
    derived = 'if [ -z "$X" ]; then X=$(awk "BEGIN {printf \\"%d\\", $DIM * 2}"); fi\n'
    spec = load_pipeline(write_pipeline(tmp_path, **{"pipeline.conf": f"WORK_DIR=\nNUM_SERIES=3\nDIM=32\n{derived}"}))
    assert spec.defaults == {"WORK_DIR": "", "NUM_SERIES": "3", "DIM": "32", "X": ""}
