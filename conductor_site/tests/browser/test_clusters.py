"""The page of a cluster that needs a sign-in, and the admin in which a cluster is set up."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from conductor_site.tests.browser.conftest import DESK, PHONE, Open
from jobs.hosts import this_host
from jobs.models import Cluster, ClusterWatch, Target
from record.tests.factories import People

pytestmark = pytest.mark.browser


@pytest.fixture
def target(people: People) -> Target:
    target = Target.objects.create(
        lab=people.operator.memberships.get().lab, name="gpu-cluster", kind="slurm", host=this_host(), slots=20,
        roots=["/data/lab/runs"], job_folder="/data/lab/conductor",
    )  # fmt: skip
    cluster = Cluster(target=target, shell="ssh", ssh_host="lab@login", ssh_by_person=True, partition="gpu")  # noqa: S604
    cluster.save()
    login = cluster.login()
    assert login is not None
    ClusterWatch.objects.create(
        target=target, failures=3, answered_at=timezone.now() - timedelta(hours=2), sign_in=login.sign_in_command(),
        problem="lab@login needs a sign-in: nobody has opened the connection, or it has ended.",
    )  # fmt: skip
    return target


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_the_command_to_sign_in_is_shown(open_page: Open, people: People, target: Target, viewport: object) -> None:
    page = open_page(people.operator, reverse("jobs:target", args=[target.pk]), viewport=viewport)
    expect(page.get_by_role("heading", name="It needs a sign-in")).to_be_visible()
    expect(page.get_by_text("ControlMaster=yes")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_a_cluster_is_set_up_in_the_admin(open_page: Open, people: People, target: Target) -> None:
    keeper = User.objects.create_superuser("keeper")
    page = open_page(keeper, reverse("admin:jobs_target_change", args=[target.pk]), viewport=DESK)
    page.locator("#id_cluster-0-account").fill("cryo")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    assert Cluster.objects.get().account == "cryo"
