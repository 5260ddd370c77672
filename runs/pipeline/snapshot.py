"""A pipeline as it was when a run began: its files, kept under the digest of their names and contents."""

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction

from record.errors import AdapterError, BadInput
from record.shared import seen
from runs.models import Pipeline, Snapshot
from runs.pipeline.load import load_pipeline
from runs.pipeline.store import folder_of

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_TOTAL_BYTES = 128 * 1024 * 1024
MAX_FILES = 5000
_LEFT_OUT = frozenset({"__pycache__", ".git", ".pytest_cache", ".ruff_cache", ".mypy_cache"})


def snapshot_pipeline(pipeline: Pipeline) -> Snapshot:
    """Copy the pipeline's folder as it is now and check the copy; the same files give the same snapshot again.

    Raises BadInput for links, odd or huge files and for a folder outside the pipeline roots, PipelineFaults for what is
    wrong with the pipeline. Writes files first, then the row: a crash between leaves files that the next call uses.
    """
    folder = check_pipeline_folder(pipeline.folder)
    digest = _store(folder, seen(Path(settings.SNAPSHOT_ROOT)))
    known = Snapshot.objects.filter(pipeline=pipeline, digest=digest).first()
    if known is not None:
        return known
    spec = load_pipeline(folder_of(digest)).to_json()
    spec["title"] = pipeline.name if spec["title"] == digest else spec["title"]
    try:
        with transaction.atomic():
            return Snapshot.objects.create(pipeline=pipeline, digest=digest, spec=spec)
    except IntegrityError:
        return Snapshot.objects.get(pipeline=pipeline, digest=digest)


def keep_copy(digest: str, source: Path, to: Path) -> None:
    """Copy a snapshot from one store into another, where it is not there; AdapterError where it is not whole."""
    if (to / digest).exists():
        return
    if not (source / digest).is_dir():
        raise AdapterError(f"{source / digest} is not there.", transient=False)
    if _store(source / digest, to, wanted=digest) != digest:
        raise AdapterError(f"{source / digest} is not what it was when it was taken.", transient=False)


def check_pipeline_folder(folder: str) -> Path:
    """The real path of a pipeline's folder; BadInput where it isn't there or lies outside the allowed roots."""
    path = Path(folder)
    if not path.is_absolute():
        raise BadInput(f"The pipeline's folder {folder!r} must be an absolute path.")
    real = path.resolve()
    if not any(real.is_relative_to(Path(root).resolve()) for root in settings.PIPELINE_ROOTS):
        roots = ", ".join(str(root) for root in settings.PIPELINE_ROOTS)
        raise BadInput(f"The folder {folder} lies outside the folders that pipelines may be loaded from ({roots}).")
    if not real.is_dir():
        raise BadInput(f"The pipeline's folder {folder} isn't there.")
    return real


def _store(folder: Path, root: Path, *, wanted: str = "") -> str:
    """Copy, hash what was copied, and name it so: a file that changes meanwhile can't come in under a wrong digest.

    With `wanted`, what has another digest is not kept.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".taking-", dir=root))
    except OSError as error:
        raise AdapterError(f"The snapshot store {root} can't be written: {error.strerror}.", transient=True) from error
    try:
        digest = _copy(folder, scratch)
        scratch.chmod(0o755)
        if digest == wanted or not wanted:
            _keep(scratch, root / digest)
        return digest
    except OSError as error:
        what = f"{error.filename or folder}: {error.strerror}"
        raise AdapterError(f"The pipeline {folder} could not be copied ({what}).", transient=True) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _keep(scratch: Path, kept: Path) -> None:
    if kept.exists():
        return
    try:
        scratch.rename(kept)
    except OSError:
        if not kept.exists():  # else somebody else kept the same files first
            raise


def _copy(folder: Path, scratch: Path) -> str:
    hasher = hashlib.sha256()
    total = 0
    for count, (name, path) in enumerate(_files(folder)):
        if count >= MAX_FILES:
            raise BadInput(f"The pipeline {folder} has more than {MAX_FILES} files; is it the right folder?")
        data = path.read_bytes()
        total += len(data)
        if total > MAX_TOTAL_BYTES:
            raise BadInput(
                f"The pipeline {folder} holds more than {MAX_TOTAL_BYTES // 2**20} MiB; keep data elsewhere."
            )
        executable = bool(path.stat().st_mode & stat.S_IXUSR)
        hasher.update(f"{name}\0{executable:d}\0{len(data)}\0".encode())
        hasher.update(data)
        _write(scratch / name, data, executable)
    return hasher.hexdigest()


def _write(path: Path, data: bytes, executable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as handle:
        handle.write(data)
        os.fsync(handle.fileno())
    path.chmod(0o755 if executable else 0o644)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name, path) of every file, sorted; BadInput for what is neither a plain file nor a folder."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in _LEFT_OUT)
        for each in [*folders, *sorted(files)]:
            path = Path(parent) / each
            mode = path.lstat().st_mode
            name = path.relative_to(folder).as_posix()
            if stat.S_ISLNK(mode):
                raise BadInput(f"{name} of the pipeline is a link. Put the file itself there: links can change later.")
            if stat.S_ISDIR(mode):
                continue
            if not stat.S_ISREG(mode):
                raise BadInput(f"{name} of the pipeline is not a plain file.")
            if path.stat().st_size > MAX_FILE_BYTES:
                raise BadInput(
                    f"{name} of the pipeline is larger than {MAX_FILE_BYTES // 2**20} MiB; keep data elsewhere."
                )
            if not name.endswith(".pyc"):
                yield name, path
