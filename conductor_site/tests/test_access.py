"""Every URL times every role, against the table beside this file. A URL without a row in it fails."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from conductor_site.tests.access_table import ARGUMENTS, BODIES, FILES, ROLES, TABLE
from conductor_site.tests.world import World

pytestmark = pytest.mark.usefixtures("stores_of_the_world")


@dataclass(frozen=True)
class Row:
    method: str
    name: str
    thing: str
    answers: tuple[int, ...]


def rows() -> list[Row]:
    lines = [line.split() for line in TABLE.splitlines() if line.strip() and not line.startswith("#")]
    return [Row(method, name, thing, tuple(map(int, answers))) for method, name, thing, *answers in lines]


def parameters() -> dict[str, list[str]]:
    """Every URL's full name, and its parameters in order; the admin's own are walked by a test of their own."""
    return dict(_walk(get_resolver(), ""))


def _walk(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, list[str]]]:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            if each.namespace != "admin":
                yield from _walk(each, f"{prefix}{each.namespace}:" if each.namespace else prefix)
        else:
            assert isinstance(each, URLPattern)
            assert each.name, f"the URL {each.pattern} has no name"
            yield f"{prefix}{each.name}", list(each.pattern.converters)


def test_every_url_has_a_row() -> None:
    assert set(parameters()) == {row.name for row in rows()}


def test_each_row_answers_every_role() -> None:
    assert all(len(row.answers) == len(ROLES) for row in rows())


def url_of(row: Row, world: World) -> str:
    """The row's URL: a thing fills the parameter `pk` or `uuid`, two things fill the one and the other."""
    things: list[Any] = [getattr(world, name) for name in row.thing.split(",") if name != "-"]
    arguments = dict(ARGUMENTS.get(row.name, {}))
    left = [name for name in parameters()[row.name] if name not in arguments]
    for wanted, thing in zip(left, things, strict=True):
        arguments[wanted] = getattr(thing, wanted if wanted in ("uuid", "slug", "token_key") else "pk")
    return reverse(row.name, kwargs=arguments)


def ask(row: Row, role: str, url: str, body: dict[str, Any]) -> int:
    """The status that `role` gets; what the request wrote is taken back."""
    client = Client()
    with transaction.atomic():
        if role != "anonymous":
            client.force_login(User.objects.get(username=role))
        status = send(client, row, url, body).status_code
        transaction.set_rollback(True)
    return status


def body_of(row: Row, world: World) -> dict[str, Any]:
    return {name: _filled(value, world) for name, value in BODIES.get(row.name, {}).items()}


def _filled(value: Any, world: World) -> Any:
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    if value.startswith("@folder"):
        return value.replace("@folder", world.target.roots[0])
    if "." in value:
        return attrgetter(value[1:])(world)
    return getattr(world, value[1:]).pk


def send(client: Client, row: Row, url: str, body: dict[str, Any]) -> Any:
    if row.method == "GET":
        return client.get(url)
    if row.name in FILES:
        query, content = FILES[row.name]
        return client.generic(row.method, url + query, content, content_type="application/octet-stream")
    if row.name.startswith("api:"):
        return client.generic(row.method, url, json.dumps(body), content_type="application/json")
    return client.post(url, body)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.method}-{row.name}")
def test_row(row: Row, world: World) -> None:
    url = url_of(row, world)
    body = body_of(row, world)
    answers = tuple(ask(row, role, url, body) for role in ROLES)
    assert answers == row.answers, dict(zip(ROLES, answers, strict=True))


LISTS = [row.name for row in rows() if row.name.startswith("api:") and row.name.endswith("-list")]


@pytest.mark.parametrize("name", LISTS)
def test_a_list_shows_ones_own_lab_alone(name: str, world: World, client: Client) -> None:
    client.force_login(User.objects.get(username="administrator"))
    assert client.get(reverse(name)).json()["results"]
    client.force_login(User.objects.get(username="outsider"))
    hidden = client.get(reverse(name)).json()["results"]
    assert len(hidden) == (1 if name == "api:lab-list" else 0)
    assert all(row["slug"] != world.lab.slug for row in hidden if name == "api:lab-list")


def test_commands_answer_no_get(world: World, client: Client) -> None:
    client.force_login(User.objects.get(username="administrator"))
    readable = {row.name for row in rows() if row.method == "GET"}
    for row in rows():
        if row.name.startswith("api:") and row.name not in readable:
            assert client.get(url_of(row, world)).status_code == 405, row.name


def test_asking_what_can_be_asked_fails_nowhere(world: World, client: Client) -> None:
    client.force_login(User.objects.get(username="administrator"))
    for row in rows():
        assert client.options(url_of(row, world)).status_code in (200, 302, 400, 404, 405), row.name


def admin_urls(world: World) -> Iterator[str]:
    from django.contrib import admin

    yield reverse("admin:index")
    for model in admin.site._registry:
        base = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{base}_changelist")
        yield reverse(f"{base}_add")
        if row := model._base_manager.first():
            yield reverse(f"{base}_change", args=[row.pk])
            yield reverse(f"{base}_delete", args=[row.pk])
            yield reverse(f"{base}_history", args=[row.pk])


def test_the_admin_is_for_superusers(world: World, client: Client) -> None:
    urls = list(admin_urls(world))
    for role in ROLES:
        if role != "anonymous":
            client.force_login(User.objects.get(username=role))
        doors = {reverse("login"), reverse("admin:login")}
        for url in urls:
            answer = client.get(url)
            assert answer.status_code == 302
            assert answer.headers["Location"].split("?")[0] in doors


def test_staff_without_the_crown_are_refused_in_words(client: Client) -> None:
    User.objects.filter(username="administrator").update(is_staff=True)
    client.force_login(User.objects.get(username="administrator"))
    answer = client.get(reverse("admin:index"), follow=True)
    assert answer.status_code == 403


def test_a_superuser_sees_every_admin_page(world: World, admin_client: Client) -> None:
    for url in admin_urls(world):
        answer = admin_client.get(url)
        read_only = url.endswith(("/add/", "/delete/"))
        assert answer.status_code in ({200, 403, 302} if read_only else {200}), url
