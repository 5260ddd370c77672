"""What lies in deploy/ is understood by what reads it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conductor_site.tests.stage import ROOT

UNITS = sorted(path.name for path in (ROOT / "deploy").iterdir() if path.suffix in (".service", ".timer"))
PLACE = "/opt/conductor"


def test_systemd_understands_every_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing: it comes with systemd")
    for name in UNITS:
        text = (ROOT / "deploy" / name).read_text()
        (tmp_path / name).write_text(text.replace(PLACE, str(ROOT)))
    paths = [str(tmp_path / name) for name in UNITS]
    told = subprocess.run(["systemd-analyze", "verify", *paths], capture_output=True, text=True, timeout=60)
    ours = [line for line in told.stderr.splitlines() if "conductor" in line]
    assert (told.returncode, ours) == (0, [])


def options(name: str) -> list[tuple[str, str]]:
    """(option, value) of a unit's lines, in order."""
    lines = (ROOT / "deploy" / name).read_text().splitlines()
    return [(key, value) for key, sep, value in (line.partition("=") for line in lines) if sep and key.isalpha()]


@pytest.mark.parametrize("name", ["conductor-web.service", "conductor-conduct.service"])
def test_a_stop_ends_the_main_process_alone_and_it_comes_back(name: str) -> None:
    unit = dict(options(name))
    assert (unit["KillMode"], unit["Restart"], unit["StartLimitIntervalSec"]) == ("process", "always", "0")


def test_nothing_that_would_hold_for_jobs_is_set_where_they_run() -> None:
    """Jobs inherit what `conduct` is given; a private /tmp would even be removed under them."""
    unit = dict(options("conductor-conduct.service"))
    assert unit["OOMPolicy"] == "continue" and unit["TasksMax"] == "infinity"
    harmful = {"PrivateTmp", "PrivateDevices", "ProtectSystem", "ProtectHome", "NoNewPrivileges", "MemoryMax",
               "MemoryDenyWriteExecute", "SystemCallFilter", "RestrictSUIDSGID", "RestrictNamespaces"}  # fmt: skip
    assert harmful & unit.keys() == set()


def test_commands_of_units_and_procfile_are_there() -> None:
    texts = [(ROOT / "deploy" / name).read_text() for name in UNITS] + [(ROOT / "Procfile").read_text()]
    commands = {found for text in texts for found in re.findall(r"manage\.py (\w+)", text)}
    there = {path.stem for path in ROOT.glob("*/management/commands/*.py")} | {"clearsessions"}
    assert {"conduct", "backup"} <= commands
    assert commands - there == set()
    configs = {found for text in texts for found in re.findall(r"--config (\S+)", text)}
    assert configs and all((ROOT / config).is_file() for config in configs)


def test_the_environment_file_names_settings_that_there_are() -> None:
    example = (ROOT / "deploy/conductor.env.example").read_text()
    named = set(re.findall(r"^#?(CONDUCTOR_\w+)=", example, re.MULTILINE))
    known = set(re.findall(r"`(CONDUCTOR_\w+)`", (ROOT / "docs/settings.md").read_text()))
    units = "".join((ROOT / "deploy" / name).read_text() for name in UNITS)
    known |= set(re.findall(r"\$\{(CONDUCTOR_\w+)\}", units))
    assert named and named - known == set()


def test_the_examples_put_the_site_below_the_same_path() -> None:
    """With a path in one of them alone, every page sends to addresses that nginx doesn't have."""
    told = re.search(r"^CONDUCTOR_PREFIX=(\S+)$", (ROOT / "deploy/conductor.env.example").read_text(), re.MULTILINE)
    place = re.search(r"^ *location (/\S*) {$", (ROOT / "deploy/nginx.conf.example").read_text(), re.MULTILINE)
    assert told and place and place[1] == f"{told[1]}/"


def test_the_text_makes_every_folder_that_the_environment_file_names() -> None:
    """A backup that can't be written is noticed in the morning after."""
    example = (ROOT / "deploy/conductor.env.example").read_text()
    folders = re.findall(r"^CONDUCTOR_(?:DATA|PIPELINES|BACKUPS)=(\S+)$", example, re.MULTILINE)
    text = (ROOT / "docs/operating.md").read_text()
    made = re.findall(r"(?:install -d[^&#\n]*|--home-dir) (/\S+)", text)
    assert len(folders) == 3 and set(folders) <= set(made)
