"""The database is refused on a network file system."""

from typing import Any

import pytest

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
