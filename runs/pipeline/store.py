"""Where snapshots of pipelines lie."""

from pathlib import Path

from django.conf import settings

from record.shared import seen


def folder_of(digest: str) -> Path:
    """Where the files of a snapshot lie."""
    return seen(Path(settings.SNAPSHOT_ROOT)) / digest
