"""What the check of a cluster says, on a real SLURM: on this machine and over SSH."""

from pathlib import Path

import pytest

from jobs.check import check_target
from jobs.hosts import this_host
from jobs.models import Cluster, Target
from jobs.tests.cluster.slurm import SlurmCluster
from jobs.tests.cluster.sshd import SshServer, second_group
from record.models import Lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def target(lab: Lab, tmp_path: Path) -> Target:
    return Target.objects.create(
        lab=lab, name="cluster", kind="slurm", host=this_host(), roots=[str(tmp_path)], job_folder=f"{tmp_path}/jobs"
    )


def said(target: Target) -> dict[str, bool]:
    return {finding.message: finding.ok for finding in check_target(target)}


def bad(target: Target) -> list[str]:
    return [words for words, ok in said(target).items() if not ok]


def test_a_cluster_that_is_not_described(target: Target) -> None:
    assert bad(target) == ["Target cluster is a cluster, but how to reach it is not set: complete it in the admin."]


@pytest.mark.slow
def test_a_cluster_that_is_well(target: Target, slurm: SlurmCluster) -> None:
    Cluster.objects.create(target=target, conf_path=slurm.env["SLURM_CONF"], partition="gpu")
    found = said(target)
    assert all(found.values()), found
    assert "SLURM would take a job of this target." in found
    assert any("keeps accounts" in words for words in found) == slurm.accounting
    assert not list(Path(target.roots[0]).glob(".conductor-check*"))


@pytest.mark.slow
def test_what_is_wrong_is_said(target: Target, plain_slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Target.objects.update(roots=[f"{tmp_path}/gone"], environment_lines="exit 3", job_folder=f"{tmp_path}/file")
    Cluster.objects.create(
        target=target,
        conf_path=plain_slurm.env["SLURM_CONF"],
        partition="nowhere",
        look_up_wait_s=1,
        python="/bin/false",
    )
    target.refresh_from_db()
    words = "\n".join(bad(target))
    for part in (
        "It has no partition nowhere", "would not take a job of this target (permanent)", "MessageTimeout",
        f"The root {tmp_path}/gone can't be used there: no such folder", "The job folder", "end the shell",
        "/bin/false can't draw evidence",
    ):  # fmt: skip
        assert part in words


@pytest.mark.slow
def test_what_the_accounts_own_shell_knows_is_told(
    target: Target, plain_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand sinfo answers, since a profile names the configuration; Conductor reads no profiles."""
    monkeypatch.setenv("SLURM_CONF", plain_slurm.env["SLURM_CONF"])
    cluster = Cluster.objects.create(target=target)
    (words,) = bad(target)
    assert words.startswith("SLURM does not answer: ")
    assert words.endswith(f" SLURM_CONF={plain_slurm.env['SLURM_CONF']}: write that into the cluster's conf path.")
    cluster.conf_path = plain_slurm.env["SLURM_CONF"]
    cluster.save()
    target.refresh_from_db()
    assert bad(target) == []

    cluster.commands_folder = "/nowhere"
    cluster.save()
    target.refresh_from_db()
    (words,) = bad(target)
    assert words.startswith("SLURM does not answer: ")
    assert "own shell finds sinfo in /usr/bin: write that into the cluster's commands folder." in words


@pytest.mark.slow
def test_over_ssh(target: Target, plain_slurm: SlurmCluster, ssh_server: SshServer, settings: object) -> None:
    settings.SSH_CONTROL_FOLDER = f"{ssh_server.folder}/c"  # type: ignore[attr-defined]
    Target.objects.update(roots=[str(ssh_server.home)], job_folder=f"{ssh_server.home}/jobs")
    Cluster.objects.create(  # noqa: S604 - a field of that name
        target=target, shell="ssh", ssh_host="cluster", ssh_config=str(ssh_server.config),
        ssh_known_hosts=str(ssh_server.known_hosts), conf_path=plain_slurm.env["SLURM_CONF"],
    )  # fmt: skip
    target.refresh_from_db()
    assert bad(target) == []
    target.group = second_group(ssh_server.user)
    assert said(target)[f"What is made there belongs to the group {target.group}."]
    target.group = "no-such-group"
    (words,) = bad(target)
    assert "can't be given to the group no-such-group (chgrp: invalid group" in words
    target.job_folder = f"{ssh_server.home}/lab/jobs"  # not there yet: it is made, and is the group's
    assert any("can't be made there" in words for words in bad(target))
    assert not (ssh_server.home / "lab").exists()
    target.group = second_group(ssh_server.user)
    assert bad(target) == []
    assert (ssh_server.home / "lab/jobs").group() == target.group
    target.group = ""
    Cluster.objects.update(ssh_by_person=True, ssh_port=1)
    (words,) = bad(target)
    assert "cluster needs a sign-in" in words
    assert "Open it on the server, as Conductor's user: ssh " in words
