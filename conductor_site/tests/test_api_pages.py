"""Lists of the API in pages: nothing is left out or shown twice, whatever comes or goes and whatever is empty."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.test import Client
from django.utils import timezone

from conductor_site.tests.world import World, make_evidence, make_gate, make_phase, make_run, make_world
from gates.models import Gate
from record.models import Lab
from record.tests.factories import People
from runs.models import Phase


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.viewer)
    return make_world(lab, people.operator, tmp_path)


def walk(client: Client, path: str, link: str = "next") -> list[dict[str, Any]]:
    """All pages from `path` on, by their links."""
    pages, address = [], f"/api/v1/{path}"
    while address:
        pages.append(client.get(address).json())
        address = pages[-1][link]
    return pages


def shown(pages: list[dict[str, Any]], name: str = "id") -> list[Any]:
    return [row[name] for page in pages for row in page["results"]]


def spread(world: World) -> None:
    """Phases whose starts are empty, equal, or neither."""
    now = timezone.now()
    for number, start in enumerate([None, now, now, now - timedelta(hours=1), None, now + timedelta(hours=1)]):
        make_phase(world.run, key=f"x{number}", position=7, started_at=start)


ORDERS = ["", "&ordering=-id", "&ordering=position", "&ordering=started_at", "&ordering=-started_at",
          "&ordering=-position,started_at", "&ordering=-started_at,-id"]  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("order", ORDERS)
def test_every_row_once_forth_and_back(order: str, size: int, world: World, client: Client) -> None:
    spread(world)
    whole = shown(walk(client, f"phases/?page_size=200{order}"))
    assert sorted(whole) == sorted(Phase.objects.values_list("pk", flat=True))
    pages = walk(client, f"phases/?page_size={size}{order}")
    assert shown(pages) == whole
    back = [pages[-1]]
    while back[0]["previous"]:
        back.insert(0, client.get(back[0]["previous"]).json())
    assert shown(back) == whole


@pytest.mark.parametrize("sign", ["", "-"])
def test_empty_values_stand_last(sign: str, world: World, client: Client) -> None:
    spread(world)
    starts = shown(walk(client, f"phases/?ordering={sign}started_at"), "started_at")
    full = [start for start in starts if start]
    assert full == sorted(full, reverse=sign == "-")
    assert starts == [*full, *[None] * (len(starts) - len(full))]


def test_what_comes_meanwhile_shifts_nothing(world: World, client: Client, tmp_path: Path) -> None:
    first = client.get("/api/v1/runs/?page_size=2").json()
    make_run(world.lab, world.run.created_by, world.target, tmp_path, name="later")
    rest = client.get(first["next"]).json()
    assert len({row["id"] for row in first["results"] + rest["results"]}) == 3


def test_more_rows_of_one_value_than_any_page_holds(world: World, client: Client) -> None:
    """A gate may show thousands of pieces, all with the same gate."""
    names = [f"01_slices/{number:04}.png" for number in range(30)]
    for name in names:
        make_evidence(world.gate, name=name)
    found = shown(walk(client, f"evidence/?gate={world.gate.pk}&page_size=4"), "name")
    assert found == sorted([world.evidence.name, *names])


def test_a_filter_stays_with_the_links(world: World, client: Client) -> None:
    for number in range(3):
        make_gate(world.lab, world.phase, world.run.created_by, key=f"more{number}")
    pages = walk(client, "gates/?state=open&page_size=1")
    assert len(pages) == Gate.objects.filter(state="open").count()


def test_a_page_has_an_upper_bound(world: World, client: Client) -> None:
    make_many = [make_evidence(world.gate, name=f"{number:03}.png") for number in range(205)]
    page = client.get("/api/v1/evidence/?page_size=100000").json()
    assert (len(make_many), len(page["results"])) == (205, 200)


@pytest.mark.parametrize("query", ["page_size=0", "page_size=-1", "page_size=many", "page_size=²", "page=2",
                                   "cursor=", "cursor=abc", "ordering=started_by", "ordering=name,,--id"])  # fmt: skip
def test_what_no_page_can_be(query: str, world: World, client: Client) -> None:
    answer = client.get(f"/api/v1/runs/?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert answer.json()["extra"]["fields"]


def test_a_cursor_of_another_order_is_refused(world: World, client: Client) -> None:
    cursor = client.get("/api/v1/runs/?page_size=1").json()["next"].split("cursor=")[1].split("&")[0]
    answer = client.get(f"/api/v1/runs/?ordering=name&cursor={cursor}")
    assert "another order" in answer.json()["extra"]["fields"]["cursor"][0]
    forged = signing.dumps([["-id"], [1], False], salt="elsewhere")
    assert client.get(f"/api/v1/runs/?cursor={forged}").status_code == 400
