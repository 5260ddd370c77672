"""Whether the files that pages name (style sheets, scripts, icons) lie where they are served from."""

import json
import logging
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)


def missing_static_files() -> list[str]:
    """Our own files that `collectstatic` has not put into place since they came; a page that names one fails."""
    try:
        known = json.loads((Path(settings.STATIC_ROOT) / "staticfiles.json").read_text())["paths"]
    except (OSError, ValueError, KeyError):
        known = {}
    own = settings.BASE_DIR / "static"
    files = (
        path for path in own.rglob("*") if path.is_file() and not path.name.startswith(".") and path.name[-1] != "~"
    )
    names = {path.relative_to(own).as_posix() for path in files}
    return sorted(names - known.keys())


def tell_of_missing_static_files() -> None:
    """Say in the log what to do: the API goes on without them, so nothing is stopped for it."""
    if missing := missing_static_files():
        log.error(
            "pages can't be shown (%s not in %s): run collectstatic", ", ".join(missing[:3]), settings.STATIC_ROOT
        )
