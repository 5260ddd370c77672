"""Clearing away what ended jobs left beside their results: their token folders and logs."""

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.db.models import QuerySet

from jobs.hosts import this_host
from jobs.models import Job, Target, TargetKind

TOKEN = re.compile(r"j[0-9a-f]{24}x")


@dataclass
class Swept:
    """What was (or would be) removed: token folders, log files, and their bytes; `failed` is why some could not be."""

    folders: int = 0
    logs: int = 0
    size_bytes: int = 0
    failed: tuple[str, ...] = ()


def clean_jobs(jobs: QuerySet[Job], *, dry_run: bool = False) -> Swept:
    """Remove the token folders of those of `jobs` that ended on this machine, and logs that bear their token.

    A job counts only if it has ended and what follows its end is done: until then its folder says what became of it.
    Logs under other names are the script's own and stay, as do all results.
    """
    swept = Swept()
    ended = jobs.filter(final_handled=True, ended_at__isnull=False, target__kind=TargetKind.LOCAL)
    here = ended.filter(target__host=this_host()).select_related("target").defer("script", "environment")
    for job in here.order_by("pk").iterator(500):
        for path in _leftovers(job):
            _remove(path, swept, dry_run=dry_run)
    return swept


def unknown_folders(targets: QuerySet[Target]) -> Iterator[str]:
    """Token folders on this machine that belong to no job we know: of jobs planned after a backup that was restored."""
    for folder in sorted({target.job_folder for target in targets.filter(kind=TargetKind.LOCAL, host=this_host())}):
        names = [name for name in os.listdir(folder) if TOKEN.fullmatch(name)] if os.path.isdir(folder) else []
        known = set(Job.objects.filter(token__in=names).values_list("token", flat=True))
        yield from (f"{folder}/{name}" for name in sorted(set(names) - known))


def _leftovers(job: Job) -> Iterator[Path]:
    yield Path(job.job_folder or job.target.job_folder) / job.token
    for name in dict.fromkeys([job.stdout_path, job.stderr_path]):
        if job.token in name.rsplit("/", 1)[-1]:
            yield Path(name)


def _remove(path: Path, swept: Swept, *, dry_run: bool) -> None:
    try:
        if path.is_symlink() or not path.exists():
            return
        folder = path.is_dir()
        size = _size_of(path)
        if not dry_run:
            shutil.rmtree(path) if folder else path.unlink()
    except OSError as error:
        swept.failed += (f"{error.filename or path}: {error.strerror}",)
        return
    swept.size_bytes += size
    swept.folders += folder
    swept.logs += not folder


def _size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(each.stat().st_size for each in files if each.is_file() and not each.is_symlink())
