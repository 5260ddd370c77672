"""What may be entered for a target and its cluster, and what is refused in words at the form."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError

from jobs.forms import TargetForm
from jobs.hosts import this_host
from jobs.models import Cluster, Target
from record.models import Lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def given(lab: Lab) -> dict[str, Any]:
    return {
        "lab": lab.pk, "name": "gpu", "kind": "slurm", "host": this_host(),
        "roots": "/data", "job_folder": "/data/jobs",
        "slots": 2, "default_time_limit_s": 60, "max_time_limit_s": 600, "max_memory_mib": 1024, "umask": "027",
    }  # fmt: skip


@pytest.fixture
def cluster(lab: Lab) -> Cluster:
    target = Target.objects.create(lab=lab, name="c", kind="slurm", host="h", roots=["/data"], job_folder="/data/jobs")
    return Cluster(target=target, shell="ssh", ssh_host="login")  # noqa: S604


def test_a_target(given: dict[str, Any]) -> None:
    assert TargetForm(given).errors == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_time_limit_s", 10**18), ("default_time_limit_s", 10**12), ("slots", 2**62), ("max_memory_mib", 10**15),
        ("host", "a\nb"), ("host", "a\x1b[2J"), ("host", "a\u202eb"), ("umask", "0"), ("umask", "999"),
        ("group", "-R"), ("group", "a b"), ("roots", "/data/../etc"), ("job_folder", "/data/a b"),
        ("environment_allow", "A\nB=C"),
    ],
)  # fmt: skip
def test_a_target_that_can_not_be_meant(given: dict[str, Any], name: str, value: Any) -> None:
    assert name in TargetForm(given | {name: value}).errors


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssh_port", 2222), ("agree_s", 86_400), ("partition", "a,b"), ("gres", "gpu:a100:2"), ("nodes", "1-2"),
        ("cluster_name", "all-gpu.2"), ("commands_folder", "/opt/slurm/bin"), ("conf_path", "/etc/slurm/slurm.conf"),
        ("python", "python3"),
    ],
)  # fmt: skip
def test_a_cluster(cluster: Cluster, name: str, value: Any) -> None:
    setattr(cluster, name, value)
    cluster.full_clean()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssh_port", 10**9), ("poll_ceiling_s", 10**18), ("look_up_wait_s", 10**18), ("agree_s", 10**18),
        ("lost_after_s", 10**18), ("partition", "a\nb"), ("gres", "gpu;rm"), ("ssh_host", "-oProxyCommand=x"),
        ("ssh_host", "a@-oProxyCommand=x"), ("ssh_host", "x" * 10_000), ("ssh_config", "config"),
        ("ssh_identity", "../id"), ("ssh_known_hosts", "known_hosts"), ("commands_folder", "bin"), ("conf_path", "x"),
        ("cluster_name", "a,b"), ("cluster_name", "all"),
    ],
)  # fmt: skip
def test_a_cluster_that_can_not_be_meant(cluster: Cluster, name: str, value: Any) -> None:
    setattr(cluster, name, value)
    with pytest.raises(ValidationError) as caught:
        cluster.full_clean()
    assert name in caught.value.message_dict
