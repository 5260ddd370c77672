"""A short run of the trials that need no cluster: nothing is lost, and the last line says so."""

import json
import os
import signal
import subprocess
import sys

import pytest

from conductor_site.tests.stage import ROOT

pytestmark = pytest.mark.slow
LIMIT_S = 600


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "faults", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_short_run() -> None:
    options = ["--only", "local", "gates", "power", "--scale", "0.05", "--seed", "7"]
    done = start(*options)
    said, _ = done.communicate(timeout=LIMIT_S)
    counts = json.loads(said.splitlines()[-1])
    assert done.returncode == 0, said
    assert counts["trials"] >= 20 and counts["chain_ok"] is True
    assert (counts["lost"], counts["doubled"], counts["wrong"]) == (0, 0, 0)


def test_an_interrupt_ends_all_that_was_started() -> None:
    trials = start("--only", "local", "--seed", "7")
    assert trials.stdout is not None
    folder = trials.stdout.readline().split("folder ")[1].split(";")[0]
    while not any(folder.encode() in each for each in commands_and_environments(but=trials.pid)):
        assert trials.poll() is None
    trials.send_signal(signal.SIGINT)
    said, _ = trials.communicate(timeout=LIMIT_S)
    assert trials.returncode == 1 and "interrupted" in said
    assert json.loads(said.splitlines()[-1])["chain_ok"] is False
    assert not any(folder.encode() in each for each in commands_and_environments(but=trials.pid))


def commands_and_environments(*, but: int) -> list[bytes]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != but:
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    found.append(file.read())
            except OSError:
                continue
    return found
