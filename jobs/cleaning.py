"""Clearing away what ended jobs left beside their results, where it lies: their token folders and logs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from django.db.models import QuerySet

from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.shells import SYSTEM_PATH, Shell, shell_for
from record.errors import AdapterError, ConductorError

TOKEN = re.compile(r"j[0-9a-f]{24}x")
BATCH = 100  # jobs a call
CALL_S = 600.0

# "kind path" pairs, after whether it is only to be told. Prints "kind bytes" for each that was there (links are not
# followed), or "failed path: why".
_REMOVE = r"""
dry_run=$1; shift
while [ $# -gt 0 ]; do
  kind=$1 path=$2; shift 2
  [ ! -L "$path" ] || continue
  case $kind in folder) [ -d "$path" ];; *) [ -f "$path" ];; esac || continue
  size=0
  while read -r each; do size=$((size + each)); done < <(find "$path" -type f -printf '%s\n' 2> /dev/null)
  if [ "$dry_run" = 1 ] || why=$(rm -rf -- "$path" 2>&1); then echo "$kind $size"; continue; fi
  why=${why%%$'\n'*}
  echo "failed ${why#rm: }"
done
"""
_LIST = r"""
[ -d "$1" ] || exit 0
cd -- "$1" && find . -maxdepth 1 -type d -name 'j*x' -printf '%f\n'
"""


@dataclass
class Swept:
    """What was (or would be) removed: token folders, log files, and their bytes.

    `failed`: why some could not be. `left`: key of each target that could not be reached -> that it was left, and why.
    """

    folders: int = 0
    logs: int = 0
    size_bytes: int = 0
    failed: tuple[str, ...] = ()
    left: dict[int, str] = field(default_factory=dict)


def clean_jobs(jobs: QuerySet[Job], *, dry_run: bool = False) -> Swept:
    """Remove the token folders of those of `jobs` that ended on targets of this machine, and logs with their token.

    A job counts only if it has ended and what follows its end is done: until then its folder says what became of it.
    Logs under other names are the script's own and stay, as do all results. A target that can't be reached is left.
    """
    swept = Swept()
    ended = jobs.filter(final_handled=True, ended_at__isnull=False, target__host=this_host())
    for target in Target.objects.filter(pk__in=ended.order_by().values("target")).order_by("pk"):
        keys = list(ended.filter(target=target).order_by("pk").values_list("pk", flat=True))
        try:
            shell = shell_for(target)
            for first in range(0, len(keys), BATCH):
                some = Job.objects.filter(pk__in=keys[first : first + BATCH]).defer("script", "environment")
                _remove(shell, [each for job in some for each in _leftovers(job, target)], swept, dry_run=dry_run)
        except ConductorError as error:
            swept.left[target.pk] = told_left(target, error)
    return swept


def unknown_folders(target: Target) -> list[str]:
    """Token folders of a target that belong to no job we know: of jobs planned after a backup that was restored.

    Raises ConductorError where the target can't be reached; a target of another machine has none to tell of here.
    """
    if target.host != this_host():
        return []
    names = [name for name in _call(shell_for(target), _LIST, target.job_folder) if TOKEN.fullmatch(name)]
    known = set(Job.objects.filter(token__in=names).values_list("token", flat=True))
    return [f"{target.job_folder}/{name}" for name in sorted(set(names) - known)]


def told_left(target: Target, error: ConductorError) -> str:
    """That a target could not be reached, in words."""
    return f"Target {target.name} was left as it is: {error.message}"


def _leftovers(job: Job, target: Target) -> Iterator[tuple[str, str]]:
    yield "folder", f"{job.job_folder or target.job_folder}/{job.token}"
    for path in dict.fromkeys([job.stdout_path, job.stderr_path]):
        if job.token in path.rsplit("/", 1)[-1]:
            yield "log", path


def _remove(shell: Shell, leftovers: list[tuple[str, str]], swept: Swept, *, dry_run: bool) -> None:
    words = [word for pair in leftovers for word in pair]
    for line in _call(shell, _REMOVE, str(int(dry_run)), *words):
        kind, _, told = line.partition(" ")
        if kind == "failed":
            swept.failed += (told,)
            continue
        swept.folders += kind == "folder"
        swept.logs += kind == "log"
        swept.size_bytes += int(told)


def _call(shell: Shell, script: str, *words: str) -> list[str]:
    """The lines that a script prints where the target's files are."""
    argv = ["/bin/bash", "-c", script, "conductor", *words]
    done = shell.run(argv, env={"PATH": SYSTEM_PATH, "LC_ALL": "C"}, cwd="/", timeout_s=CALL_S)
    if done.returncode:
        raise AdapterError(f"It could not be looked through: {done.stderr.strip()[-300:]}", transient=False)
    return done.stdout.splitlines()
