"""A run on a target behind a login node that is slow or dead: refused in words, in time, with nothing written."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs import ssh
from jobs.cluster_models import ShellKind
from jobs.hosts import this_host
from jobs.models import Cluster, Target
from jobs.tests.cluster.sshd import SshServer
from runs.models import Run
from runs.services.values import PIPELINE_FOLDER
from runs.tests.factories import Bench

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture
def far(bench: Bench, ssh_server: SshServer, settings: Any) -> Iterator[Target]:
    settings.SSH_CONTROL_FOLDER = f"{ssh_server.folder}/r"
    home = str(ssh_server.home)
    target = Target.objects.create(
        lab=bench.lab, name="far", kind="slurm", host=this_host(), roots=[home], job_folder=f"{home}/jobs"
    )
    cluster = Cluster.objects.create(
        target=target, shell=ShellKind.SSH, ssh_host="cluster", ssh_config=str(ssh_server.config),
        ssh_known_hosts=str(ssh_server.known_hosts),
    )  # fmt: skip
    yield target
    login = cluster.login()
    assert login
    ssh.SshShell(login).close()
    ssh._SLOW.clear()


def test_the_form_of_a_run_does_not_wait_for_a_dead_login_node(
    client: Client, bench: Bench, far: Target, ssh_server: SshServer, settings: Any
) -> None:
    settings.TARGET_WAIT_S = 2
    client.force_login(bench.people.operator)
    url = reverse("runs:new")
    page = client.get(url)
    wishes = {name: page.context["form"][name].value() or "" for name in page.context["form"].fields}
    wishes |= {"name": "second", "target": far.pk, "work_dir": f"{ssh_server.home}/second", "species": "alpha"}
    stopped = [ssh_server.daemon.pid, *ssh_server.sessions()]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        refused = client.post(url, wishes)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)

    text = refused.content.decode()
    assert "cluster did not answer in time, and a page waits for it no longer." in text
    assert 'value="second"' in text  # what was typed is still there
    assert not Run.objects.exists()
    ssh._SLOW.clear()
    settings.TARGET_WAIT_S = 20
    assert client.post(url, wishes).status_code == 302
    assert (ssh_server.home / "second" / PIPELINE_FOLDER).is_dir()
