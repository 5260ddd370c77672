"""Runs that use their lab's folder in place: nothing is copied, and a change there keeps phases from starting."""

import hashlib
from functools import lru_cache

from jobs.shells import SYSTEM_PATH, Shell
from record.errors import BadInput
from runs.models import Pipeline, Run
from runs.pipeline.store import folder_of

FILES_A_CALL = 500
TIMEOUT_S = 60
NAMED = 5


def require_unchanged(shell: Shell, run: Run) -> None:
    """BadInput where a file of the lab's folder is not as it was when the run began; confs have a look of their own."""
    folder = run.snapshot.pipeline.folder
    wanted = _digests(run.snapshot.digest)
    there = _read_digests(shell, folder, list(wanted))
    gone = [name for name in wanted if name not in there]
    other = [name for name in wanted if name in there and there[name] != wanted[name]]
    said = [_said(what, names) for what, names in (("Changed", other), ("Not there any more", gone)) if names]
    if said:
        raise BadInput(
            f"The folder {folder}, which this run uses in place, is not as it was. {'; '.join(said)}. Nothing was "
            "started. Put it back, or upgrade the run to the folder as it is now."
        )


def require_alone(run: Run) -> None:
    """BadInput where another run uses the same folder in place: its confs would be this one's too.

    In the transaction that makes the run; the pipeline is locked, so that of two at once one is refused.
    """
    pipeline = Pipeline.objects.select_for_update().get(pk=run.snapshot.pipeline_id)
    others = Run.objects.current().filter(in_place=True, snapshot__pipeline__folder=pipeline.folder)
    if other := others.exclude(pk=run.pk).first():
        raise BadInput(f"Run {other.name} uses {pipeline.folder} in place already: archive it first, or take a copy.")


@lru_cache(maxsize=64)
def _digests(digest: str) -> dict[str, str]:
    """name -> SHA-256 of each file of a snapshot, but for the confs that the run itself writes."""
    root = folder_of(digest)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if not (path.parent == root and path.suffix == ".conf")
    }


def _read_digests(shell: Shell, folder: str, names: list[str]) -> dict[str, str]:
    found = {}
    for start in range(0, len(names), FILES_A_CALL):
        argv = ["sha256sum", "--", *names[start : start + FILES_A_CALL]]
        done = shell.run(argv, env={"PATH": SYSTEM_PATH}, cwd=folder, timeout_s=TIMEOUT_S)
        for line in done.stdout.splitlines():
            value, _, name = line.partition("  ")
            found[name] = value
    return found


def _said(what: str, names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what}: {', '.join(names[:NAMED])}{more}"
