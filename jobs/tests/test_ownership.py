"""Whose the files of jobs are: a target's umask and group."""

import os
import pwd
import selectors
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from jobs.check import check_target
from jobs.executors.local import LocalExecutor
from jobs.hands import Hands, order_of
from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.ownership import Ownership
from jobs.tests.cluster.sshd import second_group
from jobs.tests.test_shell_contract import kept

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(target: Target) -> str:
    group = second_group(pwd.getpwuid(os.geteuid()).pw_name) if os.geteuid() else "daemon"
    Target.objects.update(umask="007", group=group)
    target.refresh_from_db()
    return group


def test_a_local_job_and_what_it_makes(plan: Callable[..., Job], target: Target, group: str, tmp_path: Path) -> None:
    hands = Hands(host=this_host(), selector=selectors.DefaultSelector())
    hands.know_targets()
    job = plan(target=target, script="#!/bin/bash\necho said\nmkdir logs/made; touch logs/made/file\n")
    assert hands.start_due() == 1
    while not job.is_final:
        hands.follow()
        job.refresh_from_db()

    assert job.state == "succeeded", job.reason
    folder = Path(order_of(job).folder)
    for path in (folder.parent, folder, folder / "submit.1", tmp_path / "logs", tmp_path / "logs" / "made"):
        assert kept(path) == ("2770", group), path
    for path in (folder / "guard.1.sh", Path(job.stdout_path), tmp_path / "logs" / "made" / "file"):
        assert kept(path) == ("660", group), path
    assert kept(folder / "script" / job.script_name) == ("770", group)
    hands.close()


def test_without_either_all_is_as_it_comes(tmp_path: Path) -> None:
    ownership = Ownership()
    ownership.make_folder(f"{tmp_path}/a/b")
    ownership.settle(f"{tmp_path}/a")
    assert kept(tmp_path / "a") == kept(tmp_path / "a" / "b")
    assert not (tmp_path / "a").stat().st_mode & 0o2000
    assert ownership.umask_number == -1


def test_a_folder_that_can_not_be_given_away_is_not_left(tmp_path: Path) -> None:
    """The next try would take it as it is, with the account's group."""
    with pytest.raises(OSError, match="no group no-such-group"):
        Ownership(group="no-such-group").make_folder(str(tmp_path / "a" / "b"))
    assert not list(tmp_path.iterdir())


def test_a_closed_job_keeps_to_it(plan: Callable[..., Job], target: Target, group: str) -> None:
    order = order_of(plan(target=target))
    LocalExecutor().close(order)
    assert kept(Path(order.folder)) == ("2770", group)


def test_the_check_says_whose_files_are(target: Target, group: str) -> None:
    words = f"What is made there belongs to the group {group} and has the umask 007."
    assert [each.ok for each in check_target(target) if each.message == words] == [True]
    target.group = "no-such-group"
    (found,) = [each for each in check_target(target) if not each.ok]
    assert "can't be given to the group no-such-group (there is no group" in found.message
    assert "leave the target's group empty" in found.message


def others(field: str) -> set[str]:
    return {each.name for each in Target._meta.fields} - {field}


@pytest.mark.parametrize(("field", "value"), [
    ("umask", "0022"), ("umask", "27"), ("umask", "077"), ("group", "cryo-em"), ("group", "lab@example.org"),
])  # fmt: skip
def test_good_values(target: Target, field: str, value: str) -> None:
    setattr(target, field, value)
    target.clean_fields(exclude=others(field))


@pytest.mark.parametrize(("field", "value"), [
    ("umask", "722"), ("umask", "028"), ("umask", "x"), ("group", "-R"), ("group", "two words"), ("group", "a;b"),
])  # fmt: skip
def test_values_that_can_not_be(target: Target, field: str, value: str) -> None:
    setattr(target, field, value)
    with pytest.raises(ValidationError) as caught:
        target.clean_fields(exclude=others(field))
    assert list(caught.value.message_dict) == [field]


def test_orders_carry_it(plan: Callable[..., Job], target: Target, group: str) -> None:
    ownership: Any = order_of(plan(target=target)).ownership
    assert ownership == Ownership("007", group)
