"""Making a backup while the installation works on.

The order makes it whole. The heads of the chains come first, since each of them is of a decision that is committed by
then. The database is one consistent state of some moment after that. Every file that its rows speak of was written
before its row, so it is there when the files are copied last; nothing is cleared away meanwhile.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from conductor_site.keeping.databases import dump_database
from conductor_site.keeping.manifest import (
    CHANNEL_SECRETS,
    EVIDENCE_LIST,
    FORMAT,
    HEADS,
    OUTPUT_LIST,
    SECRET,
    STAMP,
    Manifest,
    backups_in,
    listed_evidence,
    listed_outputs,
    sha256_of,
    write_manifest,
    write_through,
)
from gates import store
from gates.models import Evidence
from jobs.agents.models import Ask
from record.errors import BadInput, ConductorError
from record.notices.secrets import kept_secrets
from record.shared import seen
from runs.models import Snapshot
from runs.pipeline.snapshot import keep_copy

ROWS_AT_ONCE = 500
MADE, REMOVED = ".making-", ".removing-"  # how folders begin that are no backups yet, or no more


@dataclass
class Made:
    """A backup that was made: its folder, what was newly copied, and what should have been there and is not."""

    folder: Path
    evidence: int = 0
    evidence_bytes: int = 0
    copied: int = 0
    lost: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def make_backup(root: Path, *, keep: int = 0) -> Made:
    """Make one in the folder of backups `root`, and remove all but the newest `keep` (0: none is removed).

    Evidence and snapshots are copied once for all backups in `root`. What is missing or altered in the installation
    itself is told in `lost`; the backup is made all the same. Raises ConductorError, in words, where none can be.
    """
    root = root.resolve()
    for own in (settings.DATA_DIR, settings.SHARED_DIR):
        if own and root.is_relative_to(own):
            raise BadInput(f"{root} lies in {own}, with which it would be lost. Choose a folder on another disk.")
    with _only_one(root):
        folder = root / timezone.now().strftime(STAMP)
        scratch = root / f"{MADE}{folder.name}"
        scratch.mkdir(mode=0o700)
        try:
            made = _fill(scratch, root)
            os.rename(scratch, folder)
            made.folder = folder
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if keep:
            made.removed = _remove_older(root, keep, folder)
    return made


def _fill(scratch: Path, root: Path) -> Made:
    made = Made(scratch)
    with store.locked(shared=True):
        _copy_heads(scratch)
        _copy_secret(scratch)
        migrations = sorted([app, name] for app, name in MigrationRecorder(connection).applied_migrations())
        database = dump_database(scratch)
        digests = _copy_evidence(root, made)
        outputs = _copy_outputs(root, made)
        snapshots = _copy_snapshots(root, made)
    write_through(scratch / EVIDENCE_LIST, "".join(f"{digest}\n" for digest in digests).encode())
    write_through(scratch / OUTPUT_LIST, "".join(f"{digest}\n" for digest in outputs).encode())
    manifest = Manifest(
        format=FORMAT,
        taken_at=timezone.now().isoformat(),
        vendor=connection.vendor,
        database=database.name,
        database_sha256=sha256_of(database),
        migrations=migrations,
        evidence=made.evidence,
        evidence_bytes=made.evidence_bytes,
        snapshots=snapshots,
    )
    write_manifest(scratch, manifest)
    return made


def _copy_heads(scratch: Path) -> None:
    """Whole lines of the file of heads: one may just be being written."""
    heads = Path(settings.RECORD_HEADS)
    if heads.exists():
        data = heads.read_bytes()
        write_through(scratch / HEADS, data[: data.rfind(b"\n") + 1])


def _copy_secret(scratch: Path) -> None:
    """The secret key and those of channels, where they lie in the data folder; what the environment gives is kept
    elsewhere."""
    path = settings.DATA_DIR / "secret_key"
    if path.exists():
        write_through(scratch / SECRET, path.read_bytes())
    for kept in kept_secrets():
        (scratch / CHANNEL_SECRETS).mkdir(exist_ok=True, mode=0o700)
        write_through(scratch / CHANNEL_SECRETS / kept.name, kept.read_bytes())


def _copy_evidence(root: Path, made: Made) -> list[str]:
    """The digests that the rows name, sorted; each file is checked and copied, unless a backup here has it."""
    rows = Evidence.objects.order_by("sha256").values_list("sha256", "size_bytes").distinct()
    digests = []
    for digest, size in rows.iterator(ROWS_AT_ONCE):
        copy = store.path_of(digest, root / "evidence")
        if not (copy.exists() and copy.stat().st_size == size):
            if not store.copy(digest, root / "evidence"):
                made.lost.append(f"evidence {digest}")
                continue
            made.copied += 1
        made.evidence += 1
        made.evidence_bytes += size
        digests.append(digest)
    return digests


def _copy_outputs(root: Path, made: Made) -> list[str]:
    """The digests of what agents wrote, sorted; each file is checked and copied, unless a backup here has it."""
    rows = Ask.objects.exclude(raw_sha256="").order_by("raw_sha256").values_list("raw_sha256", flat=True).distinct()
    digests, source = [], seen(Path(settings.AGENT_OUTPUT_ROOT))
    for digest in rows.iterator(ROWS_AT_ONCE):
        if store.copy(digest, root / "agents", source=source):
            digests.append(digest)
        else:
            made.lost.append(f"output of an agent {digest}")
    return digests


def _copy_snapshots(root: Path, made: Made) -> list[str]:
    digests = sorted(set(Snapshot.objects.values_list("digest", flat=True)))
    for digest in digests:
        try:
            keep_copy(digest, seen(Path(settings.SNAPSHOT_ROOT)), root / "snapshots")
        except ConductorError as error:
            made.lost.append(f"snapshot {digest}: {error.message}")
    return digests


def _remove_older(root: Path, keep: int, made: Path) -> list[str]:
    """Remove all backups but `made` and the newest others, `keep` in all, and evidence that none of those lists.

    The names of what was removed. `made` stays also where a clock that was set back makes it seem older.
    """
    others = [folder for folder in backups_in(root) if folder != made]
    old = others[: max(0, len(others) - keep + 1)]
    kept = [made, *others[len(old) :]]
    for folder in old:
        aside = root / f"{REMOVED}{folder.name}"
        folder.rename(aside)  # whoever is cut off here leaves no part of a backup that seems whole
        shutil.rmtree(aside)
    if old:
        _keep_only(root / "evidence", {digest for folder in kept for digest in listed_evidence(folder)})
        _keep_only(root / "agents", {digest for folder in kept for digest in listed_outputs(folder)})
    return [folder.name for folder in old]


def _keep_only(files: Path, needed: set[str]) -> None:
    for path in files.glob("[0-9a-f][0-9a-f]/*"):
        if path.name not in needed:
            path.unlink()


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Hold the folder of backups: a second backup at the same time is refused."""
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (root / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"Another backup into {root} is being made just now.") from None
            for left in (*root.glob(f"{MADE}*"), *root.glob(f"{REMOVED}*")):
                shutil.rmtree(left, ignore_errors=True)  # of one that was killed
            yield
    except OSError as error:
        raise ConductorError(f"No backup: {error.filename or root}: {error.strerror}.") from error
