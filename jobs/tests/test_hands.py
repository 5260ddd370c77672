"""The hands in this process, with real guards."""

import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError

from jobs import processes
from jobs.executors.local import LocalExecutor
from jobs.hands import Hands
from jobs.hosts import this_host
from jobs.models import Job
from jobs.services import hold_planned, release_held, request_cancel
from jobs.wake import wake_conduct
from record.errors import AdapterError
from record.services import Author

pytestmark = pytest.mark.django_db


@pytest.fixture
def hands(settings: Any, target: Any) -> Hands:
    settings.JOB_GRACE_S = 0
    hands = Hands(host=this_host(), selector=selectors.DefaultSelector())
    hands.know_targets()
    return hands


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 5
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert path.exists()


def test_what_cannot_be_killed_is_not_called_cancelled(
    hands: Hands, plan: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(script="#!/bin/bash\ntrap '' TERM\ntouch up\nwhile :; do sleep 0.05; done\n")
    assert hands.start_due() == 1
    wait_for(tmp_path / "up")
    job = Job.objects.get()
    request_cancel(job=job, author=Author.policy("tests"), reason="enough")
    with monkeypatch.context() as patch:
        patch.setattr(LocalExecutor, "end", lambda *_: [job.native_id])
        hands.follow()
        hands.follow()
        job.refresh_from_db()
        assert job.state == "running"
        assert job.reason.startswith("Not ended yet: 1 of its processes can't be killed")

    hands.follow()

    job.refresh_from_db()
    assert (job.state, job.reason) == ("cancelled", "Cancelled by tests: enough")
    assert not processes.family(job.native_id, f"CONDUCTOR_TOKEN={job.token}")


@pytest.mark.parametrize("fault", [RuntimeError("odd"), IntegrityError("a value of this row does not fit")])
def test_one_job_that_fails_to_be_looked_after_stops_no_other(
    hands: Hands,
    plan: Callable[..., Job],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
) -> None:
    first, second = plan(), plan()
    submit = LocalExecutor.submit

    def fail_first(self: LocalExecutor, order: Any) -> str:
        if order.token == first.token:
            raise fault
        return submit(self, order)

    monkeypatch.setattr(LocalExecutor, "submit", fail_first)
    hands.start_due()
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, second.state) == ("submitting", "running")
    assert f"job {first.token} could not be looked after" in caplog.text
    hands.follow()  # not at full speed
    assert caplog.text.count("could not be looked after") == 1


OLD_BOOT = "00000000-0000-0000-0000-000000000000:7:7"


@pytest.mark.parametrize("state", ["submitting", "running"])
def test_a_job_that_was_to_be_cancelled_is_cancelled_after_a_restart_of_the_machine(
    hands: Hands, plan: Callable[..., Job], state: str
) -> None:
    job = plan()
    Job.objects.filter(pk=job.pk).update(state=state, holder=OLD_BOOT, native_id=OLD_BOOT, generation=1)
    request_cancel(job=job, author=Author.policy("tests"))
    for _ in range(2):
        hands.follow()
    job.refresh_from_db()
    assert job.state == "cancelled"


@pytest.mark.parametrize("state", ["submitting", "running"])
def test_what_a_restart_of_the_machine_cut_off_has_failed(hands: Hands, plan: Callable[..., Job], state: str) -> None:
    job = plan()
    Job.objects.filter(pk=job.pk).update(state=state, holder=OLD_BOOT, native_id=OLD_BOOT, generation=1)
    hands.follow()
    job.refresh_from_db()
    assert (job.state, job.reason[:25]) == ("failed", "The machine was restarted")


def test_a_target_that_does_not_answer_is_told(
    hands: Hands, plan: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan(script="#!/bin/bash\nuntil [ -e go ]; do sleep 0.01; done\n")
    hands.start_due()

    def stale(*_: Any) -> None:
        raise AdapterError("/data failed: Stale file handle.", transient=True)

    with monkeypatch.context() as patch:
        patch.setattr(LocalExecutor, "look", stale)
        hands.follow()
    job = Job.objects.get()
    assert (job.state, job.reason) == ("running", "It can't be looked after just now: /data failed: Stale file handle.")
    (tmp_path / "go").touch()
    (key, _), *_ = hands.selector.select(5)
    key.data()
    job.refresh_from_db()
    assert (job.state, job.reason) == ("succeeded", "")


def test_who_cancelled_a_job_is_told_whatever_was_said_of_it_since(
    hands: Hands, plan: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(script="#!/bin/bash\nsleep 60\n")
    hands.start_due()
    job = Job.objects.get()
    request_cancel(job=job, author=Author.policy("tests"), reason="enough")
    Job.objects.update(reason="It can't be looked after just now: /data failed: Stale file handle.")
    for _ in range(3):
        hands.follow()
    job.refresh_from_db()
    assert (job.state, job.reason) == ("cancelled", "Cancelled by tests: enough")


def test_a_target_in_trouble_starts_nothing_once_the_run_is_paused(
    hands: Hands, plan: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = plan()

    def full(*_: Any) -> None:
        raise AdapterError("/data can't be written: the disk is full.", transient=True)

    with monkeypatch.context() as patch:
        patch.setattr(LocalExecutor, "submit", full)
        hands.start_due()
    hold_planned(root_uuid=job.root_uuid)
    for _ in range(3):
        Job.objects.update(lease_until="2020-01-01T00:00:00Z")
        hands.follow()
    job.refresh_from_db()
    assert (job.state, job.generation, job.reason) == ("submitting", 2, "It is kept back: its run is paused.")

    release_held(root_uuid=job.root_uuid)
    Job.objects.update(lease_until="2020-01-01T00:00:00Z")
    hands.follow()
    job.refresh_from_db()
    assert job.state in ("running", "succeeded")


def test_waking_reaches_the_socket_and_never_fails(settings: Any, tmp_path: Path) -> None:
    settings.CONDUCT_SOCKET = tmp_path / "s"
    wake_conduct()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(settings.CONDUCT_SOCKET))
        receiver.settimeout(2)
        wake_conduct()
        assert receiver.recv(1) == b""
        receiver.setblocking(False)
        for _ in range(2000):
            wake_conduct()  # a full queue is no reason to wait
    settings.CONDUCT_SOCKET = tmp_path / ("x" * 200)
    wake_conduct()
