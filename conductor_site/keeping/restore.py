"""Putting a backup back: the files first, the database last, so that what is interrupted can be begun again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from conductor_site.conduct.loop import only_one
from conductor_site.keeping.databases import load_database, require_empty_database
from conductor_site.keeping.manifest import (
    CHANNEL_SECRETS,
    HEADS,
    SECRET,
    Manifest,
    listed_evidence,
    listed_outputs,
    read_manifest,
    write_through,
)
from gates import store
from jobs.drain import begin_drain
from record.errors import BadInput, ConductorError
from record.models import Lab
from record.notices.secrets import keep_secret, kept_secrets
from record.notices.services import doubt_open
from record.shared import seen
from record.verify import verify_record
from runs.pipeline.snapshot import keep_copy


@dataclass
class Restored:
    """What was put back. `kept_heads`: newer heads of the chains were there and stayed; `faults`: what doesn't hold."""

    manifest: Manifest
    evidence: int = 0
    kept_heads: bool = False
    lost: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def restore_backup(folder: Path) -> Restored:
    """Put the backup in `folder` back into this installation, whose database must be empty or absent.

    Evidence, snapshots and heads of the chains that are there stay: the heads then tell which decisions are lost. What
    is put back is brought up to this version, starts nothing by itself until `manage.py resume` (nor where this is cut
    off: see `require_whole_restore`), and its record is verified. Refused while a `conduct` runs here. Raises
    ConductorError, in words, before anything was changed where it can't be.
    """
    manifest = read_manifest(folder)
    _require_fitting(manifest)
    require_empty_database()
    restored = Restored(manifest)
    with only_one(settings.DATA_DIR), _in_words():
        _put_files(folder, restored)
        _load(folder, manifest)
        call_command("migrate", verbosity=0, interactive=False)
        doubt_open()
        begin_drain(reason=f"restored from the backup of {manifest.taken_at[:16].replace('T', ' ')} UTC")
        _mark().unlink()
    restored.faults = [str(fault) for fault in verify_record(Lab.objects.all())]
    return restored


def require_whole_restore() -> None:
    """Raise ConductorError, in words, where a restore did not get to its end: what it had planned would start at once.

    The database may be back by then, and not yet say that nothing is to be started.
    """
    if _mark().exists():
        raise ConductorError(
            "A restore into this installation is going on, or was cut off before it was told to start nothing. If none "
            f"goes on: move the database away and restore again. To start with what is there, remove {_mark()}."
        )


def _load(folder: Path, manifest: Manifest) -> None:
    """Put the database back, with the mark beside it; where it can't be, nothing has changed."""
    _mark().touch()
    try:
        load_database(folder / manifest.database, manifest.database_sha256)
    except Exception:
        _mark().unlink()
        raise


def _mark() -> Path:
    """Is there from before the database is back until work has been held."""
    return Path(settings.DATA_DIR) / "restoring"


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConductorError(f"{error.filename}: {error.strerror}. Put it right, and restore again.") from error


def _require_fitting(manifest: Manifest) -> None:
    if manifest.vendor != connection.vendor:
        raise BadInput(f"The backup is of {manifest.vendor}; this installation is set up for {connection.vendor}.")
    known = MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {}
    unknown = [f"{app}.{name}" for app, name in manifest.migrations if (app, name) not in known]
    if unknown:
        raise BadInput(
            f"The backup was made by another version of Conductor, which knows of {', '.join(unknown[:5])}. "
            "Install that version or a newer one, and restore with it."
        )


def _put_files(folder: Path, restored: Restored) -> None:
    root = folder.parent
    for digest in listed_evidence(folder):
        if store.copy(digest, seen(Path(settings.EVIDENCE_ROOT)), source=root / "evidence"):
            restored.evidence += 1
        else:
            restored.lost.append(f"evidence {digest}")
    for digest in listed_outputs(folder):
        if not store.copy(digest, seen(Path(settings.AGENT_OUTPUT_ROOT)), source=root / "agents"):
            restored.lost.append(f"output of an agent {digest}")
    for digest in restored.manifest.snapshots:
        _put_snapshot(digest, root, restored)
    restored.kept_heads = _put_heads(folder)
    if (folder / SECRET).exists():
        write_through(settings.DATA_DIR / SECRET, (folder / SECRET).read_bytes())
    for kept in kept_secrets(folder / CHANNEL_SECRETS):
        keep_secret(kept.name, kept.read_text())


def _put_snapshot(digest: str, root: Path, restored: Restored) -> None:
    try:
        keep_copy(digest, root / "snapshots", seen(Path(settings.SNAPSHOT_ROOT)))
    except ConductorError as error:
        restored.lost.append(f"snapshot {digest}: {error.message}")


def _put_heads(folder: Path) -> bool:
    """Put the heads of the chains back, unless some are there; whether there were."""
    if os.path.exists(settings.RECORD_HEADS):
        return True
    if (folder / HEADS).exists():
        settings.RECORD_HEADS.parent.mkdir(parents=True, exist_ok=True)
        write_through(settings.RECORD_HEADS, (folder / HEADS).read_bytes())
    return False
