"""The commands that a newcomer runs, as subprocesses: what they print, what they leave behind, their exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conductor_site.demo.check import Report, judge
from conductor_site.demo.real import data_folder
from conductor_site.tests.stage import ROOT

PATIENCE_S = 420


def environment_for(folder: Path) -> dict[str, str]:
    return os.environ | {"CONDUCTOR_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "conductor_site.settings"}


def run_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "manage.py", *words]
    environment = environment_for(folder)
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return facts


@pytest.mark.demo
@pytest.mark.slow
def test_the_whole_demo_holds_against_the_known_truth(tmp_path: Path) -> None:
    folder = tmp_path / "check-whole"
    report = last_line(run_command(folder, "demo_check"))
    assert report["excluded"] == ["TS_003"]
    assert (report["phases_done"], report["gates_decided"], report["duplicates"]) == (15, 6, 0)
    assert min(report["recall"].values()) > 0.8
    assert all(20 <= value <= 80 for value in report["resolution_angstrom"].values())
    assert report["pictures"] > 100
    assert not folder.exists(), "what held is cleared away"


@pytest.mark.demo
@pytest.mark.slow
def test_the_real_tilt_series_predicts_what_was_left_out(tmp_path: Path) -> None:
    try:
        data_folder()
    except SystemExit as missing:
        pytest.skip(str(missing))
    figures = last_line(run_command(tmp_path / "check-real", "real_check"))["figures"]
    assert all(figure["ok"] for figure in figures), figures


class Demo:
    """`manage.py demo` with the tiny preset, followed by what it prints."""

    def __init__(self, folder: Path, name: str) -> None:
        self.output = folder.with_name(f"{name}.out")
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "manage.py", "demo", "--preset", "tiny"],
                cwd=ROOT,
                env=environment_for(folder),
                stdout=out,
                stderr=out,
            )

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.output.read_text():
            assert self.process.poll() is None and time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.1)

    def stop(self) -> str:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(30)
        assert code == 0, (code, self.output.read_text()[-3000:])
        return self.output.read_text()


@pytest.mark.demo
@pytest.mark.slow
def test_the_demo_starts_refuses_a_second_stops_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "var"
    first = Demo(folder, "first")
    try:
        first.wait_for("Sign in as demo-reviewer")
        first.wait_for("Settings (demo")
        second = run_command(folder, "demo")
        assert second.returncode != 0 and "runs already: http://127.0.0.1:" in second.stderr
    finally:
        text = first.stop()
    assert "The site is stopped." in text
    again = Demo(folder, "again")
    try:
        again.wait_for("waiting for you")
    finally:
        again.stop()
    assert "No job of the demo is running." in run_command(folder, "demo_stop").stdout


def test_a_report_that_does_not_hold_says_what() -> None:
    report = Report(excluded=["TS_001"], recall={"alpha": 0.8}, resolution_angstrom={"alpha": 19.9}, duplicates=2)
    problems = judge(report, spoilt=["TS_003"], species=["alpha"], pixel_size_angstrom=10.0)
    assert len(problems) == 4
    assert (
        judge(
            Report(excluded=["TS_003"], recall={"alpha": 0.81}, resolution_angstrom={"alpha": 20.0}),
            spoilt=["TS_003"],
            species=["alpha"],
            pixel_size_angstrom=10.0,
        )
        == []
    )
