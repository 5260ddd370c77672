"""ETags on reads: 304 while what is shown is the same, another tag once it is not."""

from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from conductor_site.tests.access_table import ROLES
from conductor_site.tests.test_access import rows
from conductor_site.tests.world import World, make_evidence, make_world
from jobs.models import Job
from record.models import Lab
from record.tests.factories import People
from runs.models import Phase, Run


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.viewer)
    world = make_world(lab, people.operator, tmp_path)
    (tmp_path / "work" / "align.out").write_text("one line\n")
    Job.objects.filter(pk=world.job.pk).update(state="running", stdout_path=str(tmp_path / "work" / "align.out"))
    return world


READS = [row for row in rows() if row.method == "GET" and row.name.startswith("api:") and 200 in row.answers
         and row.name not in ("api:docs", "api:schema", "api:token")]  # fmt: skip


@pytest.mark.parametrize("row", READS, ids=lambda row: row.name)
def test_what_is_the_same_is_not_sent_again(row: object, world: World, people: People, client: Client) -> None:
    thing = getattr(world, row.thing) if row.thing != "-" else None  # type: ignore[attr-defined]
    if row.answers[ROLES.index("viewer")] != 200:  # type: ignore[attr-defined]
        client.force_login(people.operator)
    by_uuid = row.name.startswith(("api:decision", "api:evidence", "api:ask"))  # type: ignore[attr-defined]
    kwargs = {} if thing is None else {"uuid": thing.uuid} if by_uuid else {"pk": thing.pk}
    url = reverse(row.name, kwargs=kwargs)  # type: ignore[attr-defined]
    first = client.get(url)
    assert first.status_code == 200, first.content
    again = client.get(url, headers={"If-None-Match": f'"other", {first.headers["ETag"]}'})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert again.headers["Cache-Control"].startswith("private")
    assert client.get(url, headers={"If-None-Match": 'W/"other"'}).status_code == 200
    assert client.head(url).headers["ETag"] == first.headers["ETag"]


def test_whatever_is_shown_changes_the_tag(world: World, people: People, client: Client) -> None:
    run, gate = f"/api/v1/runs/{world.run.pk}/", f"/api/v1/gates/{world.gate.pk}/"
    tags = [client.get(run).headers["ETag"], client.get(gate).headers["ETag"]]
    Phase.objects.filter(pk=world.phase.pk).update(items_done=7)
    make_evidence(world.gate, name="one_more.png")
    assert client.get(run, headers={"If-None-Match": tags[0]}).status_code == 200
    assert client.get(gate, headers={"If-None-Match": tags[1]}).status_code == 200
    mine = client.get(gate).headers["ETag"]
    client.force_login(people.reviewer)
    assert client.get(gate, headers={"If-None-Match": mine}).status_code == 200


def test_refusals_and_commands_carry_no_tag(world: World, people: People, client: Client) -> None:
    client.force_login(people.operator)
    refused = client.get("/api/v1/runs/0/", headers={"If-None-Match": "*"})
    assert (refused.status_code, "ETag" in refused.headers) == (404, False)
    paused = client.post(
        f"/api/v1/runs/{world.run.pk}/pause/", {}, content_type="application/json", headers={"If-None-Match": "*"}
    )
    assert (paused.status_code, "ETag" in paused.headers) == (200, False)
    assert Run.objects.get(pk=world.run.pk).state == "paused"
