"""Who waits for a page does not wait for a login node that is slow or dead: on a real OpenSSH server."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs import ssh
from jobs.cluster_models import ShellKind
from jobs.deadline import left_s, longer, within
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from jobs.shells import LocalShell, shell_for
from jobs.ssh import SshShell
from jobs.tests.cluster.sshd import SshServer
from record.errors import AdapterError
from record.models import Lab
from record.tests.factories import People

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
TOO_LATE = "cluster did not answer in time, and a page waits for it no longer."


@pytest.fixture
def target(lab: Lab, ssh_server: SshServer, settings: Any) -> Iterator[Target]:
    """A target behind the server; nothing of one test's connection is left for the next."""
    settings.SSH_CONTROL_FOLDER = f"{ssh_server.folder}/w"
    home = str(ssh_server.home)
    target = Target.objects.create(
        lab=lab, name="far", kind="slurm", host=this_host(), roots=[home], job_folder=f"{home}/jobs"
    )
    cluster = Cluster.objects.create(
        target=target, shell=ShellKind.SSH, ssh_host="cluster", ssh_config=str(ssh_server.config),
        ssh_known_hosts=str(ssh_server.known_hosts),
    )  # fmt: skip
    yield target
    login = cluster.login()
    assert login
    SshShell(login).close()
    ssh._SLOW.clear()


@pytest.fixture
def job(plan: Callable[..., Job], target: Target, ssh_server: SshServer) -> Job:
    """One that runs there, and has written something."""
    job = plan(target=target, work_dir=str(ssh_server.home))
    Job.objects.update(state="running", stdout_path=f"{ssh_server.home}/out")
    (ssh_server.home / "out").write_text("first\nlast <b>words</b>\n")
    return job


@pytest.fixture
def hung(ssh_server: SshServer) -> Iterator[Callable[[], None]]:
    """Stops the server and its sessions (SIGSTOP): connections are taken, and nothing is answered."""
    stopped: list[int] = []

    def stop() -> None:
        stopped.extend([ssh_server.daemon.pid, *ssh_server.sessions()])
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    yield stop
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def nothing_asked() -> Iterator[None]:
    """Fails where a program is run: nothing is asked of anybody in here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", lambda *words, **given: pytest.fail("the cluster was asked"))
        yield


def test_a_page_is_there_before_the_cluster_has_answered(
    client: Client, people: People, job: Job, hung: Callable[[], None]
) -> None:
    client.force_login(people.viewer)
    hung()
    with nothing_asked():
        page = client.get(reverse("jobs:job", args=[job.pk])).content.decode()
    assert f'hx-get="{reverse("jobs:tail", args=[job.pk])}?stream=out" hx-trigger="load' in page
    assert "far is being asked for it" in page


def test_the_end_of_a_log_is_loaded_apart(client: Client, people: People, job: Job) -> None:
    client.force_login(people.viewer)
    answer = client.get(reverse("jobs:tail", args=[job.pk]) + "?stream=out")
    assert answer.status_code == 200
    assert "first\nlast &lt;b&gt;words&lt;/b&gt;" in answer.content.decode()
    Job.objects.update(state="succeeded", ended_at="2026-01-01T00:00:00Z")
    assert client.get(reverse("jobs:tail", args=[job.pk])).status_code == 286


@pytest.mark.parametrize("before", [False, True], ids=["unconnected", "connected"])
def test_a_hung_server_is_not_waited_for(
    client: Client, people: People, job: Job, hung: Callable[[], None], settings: Any, before: bool
) -> None:  # fmt: skip
    settings.TARGET_WAIT_S = 2
    client.force_login(people.viewer)
    if before:
        assert "last" in client.get(reverse("jobs:tail", args=[job.pk])).content.decode()
    hung()

    page = client.get(reverse("jobs:log", args=[job.pk])).content.decode()
    assert TOO_LATE in page
    assert "Jobs that run there go on." in page

    # Others who ask meanwhile do not wait at all.
    with nothing_asked():
        assert TOO_LATE in client.get(reverse("jobs:tail", args=[job.pk])).content.decode()
        answer = client.get(f"/api/v1/jobs/{job.pk}/log/")
    assert (answer.status_code, TOO_LATE in answer.json()["detail"]) == (502, True)


def test_a_check_of_a_hung_server_says_so(
    client: Client, people: People, target: Target, hung: Callable[[], None], settings: Any
) -> None:
    settings.TARGET_WAIT_S = 2
    client.force_login(people.operator)
    hung()
    assert TOO_LATE in client.post(reverse("jobs:check", args=[target.pk])).content.decode()


def test_a_server_that_answers_again_is_asked_again(
    job: Job, target: Target, ssh_server: SshServer, hung: Callable[[], None]
) -> None:
    shell = shell_for(target)
    path = f"{ssh_server.home}/out"
    hung()
    with within(1), pytest.raises(AdapterError, match="did not answer in time") as caught:
        shell.read(path)
    assert caught.value.transient
    for pid in [ssh_server.daemon.pid, *ssh_server.sessions()]:
        os.kill(pid, signal.SIGCONT)
    assert shell.read(path, limit=5) == b"first"  # where nobody waits, it is asked in any case, and answers
    with within(20):
        assert shell.read(path, limit=5) == b"first"


def test_limits_hold_for_all_calls_together_and_here_too(tmp_path: Path) -> None:
    assert left_s() is None
    with within(30), longer(60):
        assert 30 < (left_s() or 0) <= 60
    with longer(60):
        assert left_s() is None
    with within(0.2), pytest.raises(AdapterError, match="did not end within"):
        LocalShell().run(["sleep", "30"], env={"PATH": "/usr/bin:/bin"}, cwd="/", timeout_s=60)


@pytest.mark.parametrize("by_person", [False, True])
def test_what_belongs_to_another_host_is_not_looked_for_on_this_one(target: Target, by_person: bool) -> None:
    Target.objects.update(host="elsewhere")
    target.refresh_from_db()
    Cluster.objects.update(ssh_by_person=by_person)
    if not by_person:
        assert shell_for(target).environment(["HOME"])["HOME"]
        Cluster.objects.update(shell=ShellKind.LOCAL)
    with pytest.raises(AdapterError, match=f"belongs to the host elsewhere, and this is {this_host()}") as caught:
        shell_for(target)
    assert caught.value.transient
