"""Statements that are written once do what the ORM's own do."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Count, F
from django.test.utils import CaptureQueriesContext

from record.access import Role
from record.models import Event, Lab, Membership
from record.prepared import Prepared, insert, update
from record.services import Subject, record_event

pytestmark = pytest.mark.django_db


def events(key: Any) -> Any:
    return Event.objects.filter(subject_uuid=key)


QUERIES = {
    "rows": lambda key: events(key).order_by("id"),
    "rows with related ones": lambda key: events(key).select_related("lab", "decision").order_by("id"),
    "rows without a field": lambda key: events(key).defer("data").order_by("-id"),
    "values": lambda key: events(key).order_by("id").values_list("at", "data", "root_uuid"),
    "one value": lambda key: events(key).order_by("id").values_list("subject_uuid", flat=True)[:1],
    "a count": lambda key: events(key).order_by().values("lab").annotate(n=Count("pk")).values_list("n", flat=True),
}


@pytest.fixture
def about() -> Subject:
    lab, other = Lab.objects.create(name="A", slug="a"), uuid.uuid4()
    about = Subject("run", uuid.uuid4(), "run 7", uuid.uuid4())
    for number in range(3):
        record_event(lab_id=lab.pk, kind="run.create", subject=about, data={"number": number, "half": 0.5})
    record_event(lab_id=lab.pk, kind="run.create", subject=Subject("run", other, "another"))
    return about


@pytest.mark.parametrize("name", QUERIES)
def test_a_prepared_query_gives_what_its_queryset_gives(about: Subject, name: str) -> None:
    query: Prepared[Any] = Prepared(QUERIES[name])
    for _ in range(2):  # written now, and as it was written
        with CaptureQueriesContext(
            connection,
        ) as asked:
            found = query.all(about.uuid)
        assert len(asked) == 1
        expected = list(QUERIES[name](about.uuid))
        assert found == expected and len(found) > 0
        assert query.first(about.uuid) == expected[0]
        if isinstance(expected[0], Event):
            assert [vars(each).keys() for each in found] == [vars(each).keys() for each in expected]
            assert [_columns(each) for each in found] == [_columns(each) for each in expected]
    assert query.all(uuid.uuid4()) == [] and query.first(uuid.uuid4()) is None


def test_related_rows_come_along(about: Subject) -> None:
    found = Prepared(QUERIES["rows with related ones"]).first(about.uuid)
    assert found is not None
    with CaptureQueriesContext(connection) as asked:
        assert (found.lab.slug, found.decision) == ("a", None)
    assert not asked.captured_queries


def test_an_inserted_row_is_what_save_would_have_made(about: Subject) -> None:
    saved = Event.objects.filter(subject_uuid=about.uuid).first()
    assert saved is not None
    again = Event(**_columns(saved) | {"id": None})
    insert(again)
    assert again.pk > saved.pk and not again._state.adding
    assert _columns(Event.objects.get(pk=again.pk)) == _columns(saved) | {"id": again.pk}


def test_an_update_is_conditional_and_counts() -> None:
    lab, other = Lab.objects.create(name="A", slug="a"), Lab.objects.create(name="B", slug="b")
    ann, bob = User.objects.create(username="ann"), User.objects.create(username="bob")
    membership = Membership.objects.create(lab=lab, user=ann, role=Role.VIEWER)
    seen = {"pk": membership.pk, "role": Role.VIEWER}
    assert update(Membership, where=seen, changes={"role": Role.OPERATOR, "lab": other, "user_id": bob.pk}) == 1
    membership.refresh_from_db()
    assert (membership.role, membership.lab, membership.user) == (Role.OPERATOR, other, bob)
    assert update(Membership, where=seen, changes={"role": Role.REVIEWER}) == 0
    assert update(User, where={"username": "bob"}, changes={"last_login": None}) == 1
    assert update(User, where={"last_login": None}, changes={"first_name": F("username")}) == 2
    assert set(User.objects.values_list("first_name", flat=True)) == {"ann", "bob"}


def _columns(row: Event) -> dict[str, Any]:
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
