"""Where a run's jobs find Python and the renderers: here, or laid out in the run's folder at a cluster."""

import hashlib
import sys
import tempfile
from functools import cache
from pathlib import Path
from shutil import copytree, ignore_patterns

from django.conf import settings

from jobs.models import Target, TargetKind
from jobs.shells import cluster_of, is_remote, shell_for, within_roots
from record.errors import AdapterError, BadInput
from runs.models import Run

TOOLS_FOLDER = ".conductor/tools"
PACKAGE = Path(settings.BASE_DIR) / "runs" / "qc"  # imports neither Django nor anything else of ours


def python_on(target: Target) -> str:
    """The Python that draws evidence there; it needs numpy, scipy, matplotlib, mrcfile and starfile."""
    if target.kind == TargetKind.LOCAL:
        return sys.executable
    return cluster_of(target).python or ("python3" if is_remote(target) else sys.executable)


def evidence_target(run: Run) -> Target:
    """Where a run's evidence is drawn: on its target; a replay's on this machine, since it submits nothing."""
    return target_for_evidence(run.target, run.work_dir) if run.replay else run.target


def target_for_evidence(target: Target, folder: str) -> Target:
    """The target itself where it is local, else a local one of its lab whose roots hold the folder; BadInput else."""
    if target.kind == TargetKind.LOCAL:
        return target
    for other in Target.objects.filter(lab=target.lab_id, kind=TargetKind.LOCAL, archived_at=None).order_by("id"):
        try:
            within_roots(other, folder)
        except BadInput:
            continue
        return other
    raise BadInput(
        f"A replay submits nothing to {target.name}, so its evidence is drawn by a target on this machine, and none "
        f"has a root that holds {folder}. Add that root to a local target, or choose one as the run's target."
    )


def tools_path(run: Run, target: Target) -> str:
    """The folder from which it imports the renderers."""
    return str(settings.BASE_DIR) if target.kind == TargetKind.LOCAL else f"{run.work_dir}/{TOOLS_FOLDER}"


def lay_out_tools(run: Run) -> None:
    """Copy the renderers into the run's folder, where the run is at a cluster. Safe to repeat."""
    if run.target.kind == TargetKind.LOCAL:
        return
    shell = shell_for(run.target)
    folder = tools_path(run, run.target)
    marker = f"{folder}/digest"
    try:
        if shell.read(marker) == _digest().encode():
            return
    except AdapterError as error:
        if error.transient:
            raise
    with tempfile.TemporaryDirectory() as scratch:
        copytree(PACKAGE, f"{scratch}/runs/qc", ignore=ignore_patterns("tests", "__pycache__"))
        Path(f"{scratch}/runs/__init__.py").touch()
        shell.copy_tree(scratch, folder)
    shell.write(marker, _digest().encode())


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
