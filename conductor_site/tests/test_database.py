"""The database is refused on a network file system, and holds nothing that Django does not know of."""

from typing import Any

import pytest
from django.db import connection

from conductor_site import database
from record.errors import ConductorError


def test_a_disk_of_this_machine_will_do() -> None:
    database.require_well_placed_database()
    assert database.database_is_well_placed() == []


@pytest.mark.parametrize("kind", ["nfs4", "lustre"])
def test_a_network_file_system_is_refused(monkeypatch: pytest.MonkeyPatch, settings: Any, kind: str) -> None:
    monkeypatch.setitem(settings.DATABASES, "default", settings.SQLITE)
    monkeypatch.setattr(database, "file_system", lambda path: kind)
    with pytest.raises(ConductorError, match=f"lies on {kind}, where SQLite loses data"):
        database.require_well_placed_database()
    assert [error.id for error in database.database_is_well_placed()] == ["conductor_site.E001"]


@pytest.mark.django_db
def test_every_table_is_known() -> None:
    """One that is not can't be emptied with the others, and keeps them from being emptied where it refers to them."""
    known = set(connection.introspection.django_table_names(include_views=False)) | {"django_migrations"}
    assert set(connection.introspection.table_names()) - known == set()
