"""Where a run's jobs find Python and the renderers: here, or laid out in the run's folder at a cluster."""

import hashlib
import sys
import tempfile
from functools import cache
from pathlib import Path
from shutil import copytree, ignore_patterns

from django.conf import settings

from jobs.models import Target, TargetKind
from jobs.shells import cluster_of, is_remote, shell_for
from record.errors import AdapterError
from runs.models import Run

TOOLS_FOLDER = ".conductor/tools"
PACKAGE = Path(settings.BASE_DIR) / "runs" / "qc"  # imports neither Django nor anything else of ours


def python_on(target: Target) -> str:
    """The Python that draws evidence there; it needs numpy, scipy, matplotlib, mrcfile and starfile."""
    if target.kind == TargetKind.LOCAL:
        return sys.executable
    return cluster_of(target).python or ("python3" if is_remote(target) else sys.executable)


def tools_path(run: Run) -> str:
    """The folder from which it imports the renderers."""
    return str(settings.BASE_DIR) if run.target.kind == TargetKind.LOCAL else f"{run.work_dir}/{TOOLS_FOLDER}"


def lay_out_tools(run: Run) -> None:
    """Copy the renderers into the run's folder, where the run is at a cluster. Safe to repeat."""
    if run.target.kind == TargetKind.LOCAL:
        return
    shell = shell_for(run.target)
    marker = f"{tools_path(run)}/digest"
    try:
        if shell.read(marker) == _digest().encode():
            return
    except AdapterError as error:
        if error.transient:
            raise
    with tempfile.TemporaryDirectory() as scratch:
        copytree(PACKAGE, f"{scratch}/runs/qc", ignore=ignore_patterns("tests", "__pycache__"))
        Path(f"{scratch}/runs/__init__.py").touch()
        shell.copy_tree(scratch, tools_path(run))
    shell.write(marker, _digest().encode())


@cache
def _digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
