from __future__ import annotations

import ast
import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runs.qc.__main__ import RENDERERS, SEVERAL, THEN, main
from runs.qc.index import Index, plain
from runs.qc.pictures import nice_length, scale_bar, to_grey
from runs.qc.tests.scenes import particles

ROOT = Path(__file__).resolve().parents[3]


def _run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runs.qc", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_help_names_every_renderer_and_imports_no_numpy():
    call = "try: m.main(['--help'])\nexcept SystemExit: pass"
    code = f"import sys, runs.qc.__main__ as m\n{call}\nassert 'numpy' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert all(name in done.stdout for name in RENDERERS)


@pytest.mark.parametrize("name", list(RENDERERS))
def test_every_renderer_has_its_help(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert "--out DIR" in capsys.readouterr().out


@pytest.mark.parametrize(
    "option", [["--apix", "0"], ["--apix", "nan"], ["--n-slices", "0"], ["--n-slices", "2.5"], ["--apix", "wide"]]
)
def test_numbers_are_checked_where_they_are_given(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["slices", "a.mrc", "--out", "o", *option])
    assert stopped.value.code == 2
    assert f"argument {option[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["slices"]])
def test_wrong_use_is_exit_2_without_traceback(arguments):
    done = _run(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_command_from_outside(write_mrc, tmp_path):
    done = _run("slices", write_mrc("TS_001.mrc", particles()), "--out", tmp_path / "o", "--json", "--n-slices", 2)
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["series"]["TS_001"]["verdict"] == "good"


def test_no_renderer_imports_django_or_pyplot():
    for path in (ROOT / "runs" / "qc").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] == "django" or name == "matplotlib.pyplot"], path


def test_an_output_folder_that_cannot_be_made_is_a_sentence(render, write_mrc, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, stderr = render("slices", write_mrc("A.mrc", particles()), out=tmp_path / "file" / "out")
    assert code == 2
    assert str(tmp_path / "file") in stderr
    assert len(stderr.strip().splitlines()) == 1


def test_a_full_disk_leaves_no_index_and_says_so(render, write_mrc, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("runs.qc.index.os.fsync", full)
    code, _, stderr = render("slices", write_mrc("A.mrc", particles()))
    assert code == 2
    assert "No space left on device" in stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_figures_are_plain_json():
    value = {"a": np.float32(1.5), "b": (np.int64(3), float("nan"), np.inf), "c": {"d": True, 5: "x"}, "e": None}
    assert plain(value) == {"a": 1.5, "b": [3, None, None], "c": {"d": True, "5": "x"}, "e": None}


def test_a_name_is_taken_once(tmp_path):
    index = Index(renderer="x", folder=tmp_path)
    entry = {"content": b"1", "suffix": ".png", "kind": "image", "title": "", "caption": ""}
    index.add(name="a/b", **entry)
    index.add(name="a_b", **entry)
    assert [each.file for each in index.evidence] == ["a_b.png", "a_b-2.png"]
    with pytest.raises(ValueError, match="is there already"):
        index.add(name="a/b", **entry)


@pytest.mark.parametrize(("longest", "length"), [(160, 100), (49, 20), (50, 50), (0.9, 0.5), (2000, 2000)])
def test_nice_length(longest, length):
    assert nice_length(longest) == pytest.approx(length)


def test_scale_bar_chooses_its_unit():
    assert scale_bar(960, 13.48) == (pytest.approx(2000 / 13.48), "200 nm")
    assert scale_bar(64, 4.0) == (12.5, "50 Å")
    assert scale_bar(64, None) == (10, "10 px")


def test_grey_levels():
    grey = to_grey(np.array([[-1, 0, 0.5, 1, np.nan]]), (0.0, 1.0), levels=3)
    assert grey.tolist() == [[0, 0, 128, 255, 0]]


def test_several_renderers_share_one_python_each_with_its_own_folder(write_mrc, tmp_path):
    first, second = (write_mrc(f"TS_00{number}.mrc", particles()) for number in (1, 2))
    done = _run(SEVERAL, "averages", "--map", first, THEN, "averages", "--map", second, "--out", tmp_path / "o")
    assert done.returncode == 0, done.stderr
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("o/*/index.json"))
    assert found == ["o/001_averages/index.json", "o/002_averages/index.json"]


def test_the_first_of_several_that_fails_ends_them(tmp_path, capsys):
    lacking = ["averages", "--map", str(tmp_path / "none.mrc")]
    assert main([SEVERAL, *lacking, THEN, *lacking, "--out", str(tmp_path / "o")]) == 2
    assert capsys.readouterr().err.count("none.mrc") == 1


@pytest.mark.parametrize("arguments", [[], ["averages"], ["--out", "o"], ["averages", THEN, "--out", "{folder}"]])
def test_wrong_use_of_several_is_exit_2(arguments, tmp_path):
    done = _run(SEVERAL, *(word.format(folder=tmp_path) for word in arguments))
    assert done.returncode == 2 and "Traceback" not in done.stderr
