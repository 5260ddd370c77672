"""Where the database may lie: SQLite's write-ahead log needs a disk of this machine."""

import os
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from jobs.check import NETWORK_FILE_SYSTEMS, file_system
from record.errors import ConductorError


def misplaced_database() -> str:
    """What is wrong with the place of the database, in words; "" where nothing is."""
    database = settings.DATABASES["default"]
    if not str(database["ENGINE"]).endswith("sqlite3"):
        return ""
    path = os.path.abspath(str(database["NAME"]))
    kind = file_system(os.path.dirname(path))
    if kind not in NETWORK_FILE_SYSTEMS:
        return ""
    return (
        f"The database {path} lies on {kind}, where SQLite loses data: set CONDUCTOR_DATA (or CONDUCTOR_SQLITE) "
        "to a folder on a disk of this machine."
    )


def require_well_placed_database() -> None:
    """Raise ConductorError, in words, where the database lies on a network file system."""
    if wrong := misplaced_database():
        raise ConductorError(wrong, code="misplaced_database")


@register()
def database_is_well_placed(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:
    wrong = misplaced_database()
    return [Error(wrong, id="conductor_site.E001")] if wrong else []
