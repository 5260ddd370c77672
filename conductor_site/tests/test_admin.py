"""The admin: what is set up there, and actions that ask for a reason and the policy."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from conductor_site.tests.world import World, make_world
from gates.models import Gate
from jobs.hosts import this_host
from jobs.models import Job, Target
from record.access import Role
from record.models import Decision, Event, Lab, Membership, Statement
from record.tests.factories import People
from runs.models import Pipeline, Run
from runs.tests.factories import write_pipeline


@pytest.fixture
def keeper(lab: Lab) -> User:
    """A superuser who is also administrator of the lab."""
    user = User.objects.create_superuser("keeper", password="a long enough password")
    Membership.objects.create(lab=lab, user=user, role=Role.ADMINISTRATOR)
    return user


@pytest.fixture
def world(lab: Lab, people: People, keeper: User, tmp_path: Path, client: Client) -> World:
    client.force_login(keeper)
    return make_world(lab, people.operator, tmp_path)


def act(client: Client, row: Any, action: str, reason: str | None = "because") -> Any:
    """Carry out an admin action on one row, with its confirmation unless `reason` is None."""
    meta = row._meta
    body: dict[str, Any] = {"action": action, "_selected_action": [row.pk]}
    if reason is not None:
        body |= {"confirmed": "1", "reason": reason}
    return client.post(reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist"), body)


def said(answer: Any) -> list[str]:
    return [str(message) for message in get_messages(answer.wsgi_request)]


def test_an_action_asks_for_a_reason_first(world: World, client: Client) -> None:
    page = act(client, world.run, "pause", None)
    assert page.status_code == 200
    assert "first" in page.content.decode()
    assert 'name="reason"' in page.content.decode()
    empty = act(client, world.run, "pause", "  ")
    assert "This field is required" in empty.content.decode()
    assert Run.objects.get(pk=world.run.pk).state == "running"


@pytest.mark.parametrize(
    ("thing", "action", "field", "value"),
    [
        ("run", "pause", "state", "paused"),
        ("paused_run", "resume", "state", "done"),
        ("run", "cancel", "state", "cancelled"),
        ("gate", "withdraw", "state", "withdrawn"),
        ("unprepared_gate", "prepare_again", "state", "open"),
        ("job", "cancel", "state", "cancelled"),
    ],
)
def test_actions_call_the_services(
    thing: str, action: str, field: str, value: str, world: World, client: Client
) -> None:
    row = getattr(world, thing)
    answer = act(client, row, action)
    assert answer.status_code == 302
    row.refresh_from_db()
    assert getattr(row, field) == value, said(answer)


def test_archiving_and_reopening(world: World, client: Client) -> None:
    act(client, world.cancelled_run, "archive", "tidying")
    assert Run.objects.get(pk=world.cancelled_run.pk).archived_at
    assert Decision.objects.get(verdict="archive").door == "admin"
    answer = act(client, world.ended_gate, "reopen", "measured anew")
    assert "reopened as iteration 2" in said(answer)[-1]
    assert Gate.objects.get(previous=world.ended_gate).iteration == 2


def test_applying_again_needs_no_reason(world: World, client: Client) -> None:
    assert act(client, world.unapplied_gate, "apply_again", None).status_code == 302
    assert Event.objects.filter(kind="gate.retry_applying").exists()


def test_a_refusal_is_shown_and_the_others_go_on(world: World, client: Client) -> None:
    body = {
        "action": "pause",
        "_selected_action": [world.paused_run.pk, world.run.pk],
        "confirmed": "1",
        "reason": "maintenance",
    }
    answer = client.post(reverse("admin:runs_run_changelist"), body)
    assert Run.objects.get(pk=world.run.pk).state == "paused"
    assert any("can't pause" in message for message in said(answer))
    assert "maintenance" in Event.objects.get(kind="run.pause").message


def test_a_superuser_without_the_role_only_looks(world: World, client: Client) -> None:
    Membership.objects.filter(user__username="keeper").delete()
    for row, action in ((world.run, "pause"), (world.job, "cancel"), (world.gate, "withdraw"), (world.gate, "reopen")):
        answer = act(client, row, action)
        assert "role" in said(answer)[0], action
    assert Run.objects.get(pk=world.run.pk).state == "running"
    assert Job.objects.get(pk=world.job.pk).state == "planned"


def test_a_pasted_secret_is_struck(world: World, client: Client) -> None:
    act(client, world.decision, "strike_what_was_written", "a password had been pasted")
    statement = Statement.objects.get(decision=world.decision)
    assert (statement.reason, bool(statement.struck_by)) == ("", True)
    shown = client.get(f"/api/v1/decisions/{world.decision.uuid}/").json()
    assert (shown["reason"], shown["struck"]) == ("", True)


@pytest.mark.parametrize("thing", ["decision", "event", "ballot", "evidence", "gate", "run", "phase", "job"])
def test_the_record_is_not_written_here(thing: str, world: World, client: Client) -> None:
    row = getattr(world, thing)
    base = f"admin:{row._meta.app_label}_{row._meta.model_name}"
    assert client.get(reverse(f"{base}_add")).status_code == 403
    assert client.post(reverse(f"{base}_change", args=[row.pk]), {}).status_code == 403
    assert client.post(reverse(f"{base}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert act(client, row, "delete_selected").status_code in (200, 302)
    assert type(row)._base_manager.filter(pk=row.pk).exists()


def target_form(world: World, **changes: Any) -> dict[str, Any]:
    names = [
        "name",
        "kind",
        "host",
        "job_folder",
        "slots",
        "default_time_limit_s",
        "max_time_limit_s",
        "max_memory_mib",
    ]
    values = {name: getattr(world.target, name) for name in names}
    lines = {"roots": "\n".join(world.target.roots), "environment_lines": "", "environment_allow": ""}
    return values | lines | {"lab": world.lab.pk} | changes


def test_a_new_target_is_this_machines(world: World, client: Client) -> None:
    page = client.get(reverse("admin:jobs_target_add")).content.decode()
    assert f'name="host" value="{this_host()}"' in page
    assert "Longest time limit (s)" in page


@pytest.mark.parametrize(
    ("model", "field", "name"),
    [("membership", "user", "keeper"), ("membership", "lab", ""), ("target", "lab", ""), ("pipeline", "lab", "")],
)
def test_labs_and_people_are_found_by_name(model: str, field: str, name: str, world: World, client: Client) -> None:
    app = {"membership": "record", "target": "jobs", "pipeline": "runs"}[model]
    term = name or world.lab.name
    asked = {"app_label": app, "model_name": model, "field_name": field, "term": term}
    found = client.get(reverse("admin:autocomplete"), asked).json()["results"]
    assert [row["text"] for row in found] == [term]


def test_a_target_is_set_up(world: World, client: Client, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    roots = f"{world.target.roots[0]}\r\n\r\n {tmp_path}/more/ \r\n"
    url = reverse("admin:jobs_target_change", args=[world.target.pk])
    assert world.target.roots[0] in client.get(url).content.decode()
    answer = client.post(url, target_form(world, roots=roots, environment_allow="LICENCE_FILE\nOMP_NUM_THREADS"))
    assert answer.status_code == 302, answer.context["errors"]
    target = Target.objects.get(pk=world.target.pk)
    assert target.roots == [world.target.roots[0], f"{tmp_path}/more"]
    assert target.environment_allow == ["LICENCE_FILE", "OMP_NUM_THREADS"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"roots": ""}, "This field is required"),
        ({"roots": "data"}, "is not absolute"),
        ({"roots": "/"}, "below /"),
        ({"roots": "/no/such/folder"}, "is not an existing folder"),
        ({"roots": "/tmp/../etc"}, "without"),
        ({"roots": "/tmp/a b"}, "scripts would take amiss"),
        ({"job_folder": "/no/such"}, "is not an existing folder"),
        ({"environment_allow": "A=B"}, "is not the name of a variable"),
        ({"default_time_limit_s": 10**7}, "above the longest"),
        ({"slots": 0}, "greater than or equal to 1"),
    ],
)
def test_a_target_that_cannot_be(changes: dict[str, Any], words: str, world: World, client: Client) -> None:
    url = reverse("admin:jobs_target_change", args=[world.target.pk])
    answer = client.post(url, target_form(world, **changes))
    assert answer.status_code == 200
    assert words in answer.content.decode().replace("&#x27;", "'")


def test_a_target_is_checked_in_words(world: World, client: Client) -> None:
    good = said(act(client, world.target, "check_now", None))
    Target.objects.update(roots=["/no/such/folder"])
    bad = said(act(client, world.target, "check_now", None))
    assert any("/no/such/folder" in message for message in bad)
    assert good != bad


def test_a_pipeline_is_read_before_it_is_taken_up(world: World, client: Client, tmp_path: Path) -> None:
    url = reverse("admin:runs_pipeline_add")
    body = {"lab": world.lab.pk, "name": "second"}
    broken = write_pipeline(tmp_path / "broken", **{"scripts/manifest.yml": "phases: ["})
    for folder, words in ((str(broken), "scripts/manifest.yml"), ("/etc", "outside"), (f"{tmp_path}/gone", "there")):
        assert words in client.post(url, body | {"folder": folder}).content.decode()
    answer = client.post(url, body | {"folder": str(write_pipeline(tmp_path / "whole"))})
    assert answer.status_code == 302
    assert Pipeline.objects.get(name="second").lab == world.lab


def test_lists_need_a_constant_number_of_queries(
    world: World, people: People, client: Client, tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    for number in range(3):
        make_world(world.lab, people.operator, tmp_path, name=f"again{number}")
    for name in (
        "gates_gate",
        "gates_evidence",
        "jobs_agent",
        "jobs_ask",
        "jobs_job",
        "record_decision",
        "record_event",
        "runs_run",
        "runs_phase",
    ):
        with django_assert_max_num_queries(14):
            assert client.get(reverse(f"admin:{name}_changelist")).status_code == 200
