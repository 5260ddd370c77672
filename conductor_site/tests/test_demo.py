"""The demo's supervisor, its client, and what `make demo-stop` and `make demo` do to the run one after another."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from conductor_site.demo.client import Client, NoAnswer
from conductor_site.demo.resume import retry_stopped, stop_jobs, take_up_again
from conductor_site.demo.screen import phase_lines
from conductor_site.demo.setup import REVIEWER, prepare_site
from conductor_site.demo.supervisor import Site, open_door
from conductor_site.tests.stage import ROOT
from jobs.models import Job
from jobs.services import request_cancel
from jobs.sweep import handle_unhandled
from record.models import Lab
from record.services import Author
from runs.models import Phase
from runs.services.control import pause_run
from runs.states import PhaseState
from runs.sweep import start_ready
from runs.tests.conftest import bench  # noqa: F401 - a fixture
from runs.tests.factories import Bench, states


def test_a_second_demo_is_refused_before_it_touches_anything(tmp_path: Path) -> None:
    site, second = Site(open_door(8765), tmp_path), Site(open_door(8765), tmp_path)
    site.claim()
    with pytest.raises(SystemExit, match=f"runs already: {site.address}"):
        second.claim()
    site.stop()

    second.claim()
    second.stop()


def test_no_other_site_takes_the_port_while_one_is_prepared() -> None:
    with open_door(8765) as first, open_door(first.getsockname()[1]) as second:
        assert first.getsockname() != second.getsockname()


def test_an_answer_cut_off_half_way_may_be_asked_for_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(NoAnswer):
            Client(f"http://127.0.0.1:{server.getsockname()[1]}").get("runs/")
        thread.join()


@pytest.mark.django_db
def test_every_state_of_a_phase_fits_a_terminal_of_80_columns(bench: Bench) -> None:  # noqa: F811
    run = bench.begin("demo")
    for state in PhaseState:
        Phase.objects.filter(run=run).update(state=state, items_total=128, items_done=128)
        for line in phase_lines(run):
            assert line.endswith(PhaseState(state).label)
            assert len(line) < 80


@pytest.mark.slow
@pytest.mark.parametrize("stopped_in", ["prepare_site", "prepare_demo", "Site.start"])
def test_ctrl_c_while_the_demo_starts_is_told_in_words(tmp_path: Path, stopped_in: str) -> None:
    code = f"""
import os, signal, sys, django; django.setup()
from django.core.management import call_command
from conductor_site.management.commands import demo
from conductor_site.management.commands.demo import Site
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background is started without it
def stop(*_): os.kill(os.getpid(), signal.SIGINT)
demo.{stopped_in} = stop
call_command("demo")
"""
    environment = os.environ | {"CONDUCTOR_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "conductor_site.settings"}
    environment.pop("CONDUCTOR_SQLITE", None)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "\nStopping the site ...\nThe site is stopped.\n"


@pytest.mark.django_db
def test_the_demo_keeps_out_of_a_labs_database(bench: Bench) -> None:  # noqa: F811
    """Its people would be members there, and stopping it would cancel the lab's jobs."""
    bench.begin("ours")
    start_ready()
    User.objects.create_user(REVIEWER)
    for refused in (prepare_site, lambda: call_command("demo_stop")):
        with pytest.raises(CommandError, match=f"belongs to other labs \\(.*{bench.lab.name}\\)"):
            refused()
    assert not Lab.objects.filter(slug="demo").exists()
    assert Job.objects.live().count() == 1 and not Job.objects.get().cancel_requested_at


def test_make_shows_the_demo_nothing_of_a_labs_site() -> None:
    lab = {"CONDUCTOR_DATA": "/srv/lab", "CONDUCTOR_HTTPS": "1", "DATABASE_URL": "postgresql:///lab"}
    show = ["make", "--no-print-directory", "--eval", "show: ; @$(LOCAL) env", "show"]
    environment = os.environ | lab | {"CONDUCTOR_PORT": "9000"}
    seen = subprocess.run(show, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    names = {line.partition("=")[0] for line in seen.splitlines()}
    assert {name for name in names if name.startswith(("CONDUCTOR_", "DATABASE_"))} == {"CONDUCTOR_PORT"}


def test_nothing_is_removed_under_a_site_that_runs(tmp_path: Path) -> None:
    clean = ["make", "--no-print-directory", "-C", str(tmp_path), "-f", str(ROOT / "Makefile"), "clean"]
    site = Site(open_door(8768), tmp_path / "var")
    site.claim()
    done = subprocess.run(clean, capture_output=True, text=True)
    assert done.returncode != 0 and f"{site.address} still runs here" in done.stdout
    assert (tmp_path / "var").exists()
    site.stop()
    assert subprocess.run(clean, capture_output=True).returncode == 0
    assert not (tmp_path / "var").exists()


@pytest.mark.django_db
def test_phases_that_were_stopped_are_tried_again_when_their_end_is_seen(bench: Bench) -> None:  # noqa: F811
    run = bench.begin("demo")
    assert start_ready() == 1
    user = bench.people.operator
    assert stop_jobs(user) == 1

    run.refresh_from_db()
    take_up_again(run, user)  # before anybody has seen that the job was cancelled
    run.refresh_from_db()
    assert retry_stopped(run, user) == 0
    assert handle_unhandled() == 1
    assert states(run)["1"] == "failed"

    assert retry_stopped(run, user) == 1
    assert retry_stopped(run, user) == 0
    bench.drive()
    assert states(run)["2"] == "checkpoint"


@pytest.mark.django_db
def test_what_a_person_cancelled_or_a_paused_run_left_is_not_tried_again(bench: Bench) -> None:  # noqa: F811
    run = bench.begin("demo")
    start_ready()
    request_cancel(job=Job.objects.get(), author=Author.policy("tests"), reason="enough")
    handle_unhandled()
    user = bench.people.operator
    assert states(run)["1"] == "failed"
    assert retry_stopped(run, user) == 0


@pytest.mark.slow
def test_a_check_that_is_stopped_half_way_leaves_no_process(tmp_path: Path) -> None:
    environment = os.environ | {
        "CONDUCTOR_DATA": str(tmp_path / "var"),
        "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
        "CONDUCTOR_PORT": "8790",
    }
    environment.pop("CONDUCTOR_SQLITE", None)
    with open(tmp_path / "out", "wb") as out:
        check = subprocess.Popen(
            [sys.executable, "manage.py", "demo_check", "--preset", "tiny"],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=out,
        )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("var/jobs/*/started.*")) and time.monotonic() < deadline:
        time.sleep(0.1)

    check.send_signal(signal.SIGTERM)

    assert check.wait(60) == 1
    assert "it was interrupted" in (tmp_path / "out").read_text()
    assert _at_work_in(tmp_path) == []


def _at_work_in(folder: Path) -> list[str]:
    """Command lines of the living processes that know of `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.mark.django_db
def test_a_run_that_a_person_paused_stays_paused(bench: Bench) -> None:  # noqa: F811
    run = bench.begin("demo")
    user = bench.people.operator
    pause_run(run=run, author=Author.person(user, "web"), reason="microscope time first")
    take_up_again(run, user)
    run.refresh_from_db()
    assert run.state == "paused"
