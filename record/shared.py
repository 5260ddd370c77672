"""The folder that several hosts share, where there is one: what lies in it is used only while it can be seen."""

from pathlib import Path

from django.conf import settings

from record.errors import AdapterError

MARK = "conductor-shared"


def seen(folder: Path) -> Path:
    """`folder`, which is or may be in the shared one; AdapterError (transient) where that one is not there.

    It is known by a file that somebody has put there. Without it an unmounted folder would pass for an empty one: what
    is asked for would seem lost, and what is kept would lie where no other host sees it.
    """
    shared = settings.SHARED_DIR
    if shared and folder.is_relative_to(shared) and not (shared / MARK).exists():
        raise AdapterError(
            f"{settings.HOST_NAME} can't see the folder that all hosts share, {shared}: there is no file {MARK} in it. "
            "Nothing is lost. Whoever looks after this host has to mount the folder; what waits for it then goes on.",
            transient=True,
        )
    return folder
