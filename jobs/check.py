"""What is wrong with a target, in words."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.deadline import longer
from jobs.drain import draining
from jobs.environment import after_lines, allowed_environment
from jobs.hosts import this_host
from jobs.models import Target, TargetKind
from jobs.shells import FORBIDDEN, explain, shell_for
from record.errors import ConductorError

GIB = 1024**3
LEAST_FREE_GIB = 5
ENVIRONMENT_TIMEOUT_S = 60
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "lustre", "cifs", "smb3", "beegfs", "gpfs", "ceph", "fuse.sshfs", "9p"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `message` says what is the case and, where not `ok`, what to do."""

    ok: bool
    message: str


def check_target(target: Target) -> list[Finding]:
    """Everything that a job needs there, looked at now. Makes and removes a small file in each folder."""
    if target.host != this_host():
        return [
            Finding(False, f"It belongs to the host {target.host}, this is {this_host()}: run the check there, "
                           "or set the target's host (or CONDUCTOR_HOST_NAME) to the same name.")
        ]  # fmt: skip
    findings = [Finding(True, f"It belongs to this host, {target.host}.")]
    if target.kind == TargetKind.SLURM:
        from jobs.check_cluster import check_cluster  # it builds on this module

        return [*findings, *_state(target), *check_cluster(target)]
    with longer(ENVIRONMENT_TIMEOUT_S):
        for check in (_state, _folders, _space, _limits, _bash, _environment):
            findings += check(target)
    return findings


def file_system(path: str) -> str:
    """The kind of file system that `path` lies on, as /proc/mounts names it; "" where that can't be told."""
    real = os.path.realpath(path)
    best, kind = "", ""
    with open("/proc/mounts", errors="replace") as mounts:
        for line in mounts:
            point, name = line.split()[1:3]
            point = point.replace("\\040", " ")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, name
    return kind


def _state(target: Target) -> Iterator[Finding]:
    if drain := draining():
        yield Finding(False, f"Nothing new is started anywhere ({drain.reason}) until `manage.py resume` is called.")
    if target.archived_at:
        yield Finding(False, "It is archived: nothing is started there.")
    elif target.paused:
        yield Finding(False, "It is paused: nothing new is started until somebody unpauses it.")


def _folders(target: Target) -> Iterator[Finding]:
    if not target.roots:
        yield Finding(False, "It has no roots: name at least one folder that runs may write in.")
    for what, path in [("root", root) for root in target.roots] + [("job folder", target.job_folder)]:
        yield _folder(what, path)
    if target.ownership():
        yield _owned(target)


def _owned(target: Target) -> Finding:
    """Whether folders that are made there can be given the group, tried in the first that can be written."""
    ownership = target.ownership()
    try:
        with tempfile.TemporaryDirectory(dir=target.job_folder, prefix=".conductor-check-") as scratch:
            ownership.make_folder(f"{scratch}/folder")
    except OSError as error:
        return Finding(False, group_trouble(target, error.strerror or str(error)))
    return Finding(True, owned_words(target))


def group_trouble(target: Target, said: str) -> str:
    """That the group can't be given, and what to do."""
    return (
        f"What is made there can't be given to the group {target.group} ({said}): the account must be a member of it "
        "(id -nG shows its groups; it counts from its next sign-in on), or leave the target's group empty."
    )


def owned_words(target: Target) -> str:
    """Whose what is made there is, in words."""
    group = f"belongs to the group {target.group}" if target.group else ""
    umask = f"has the umask {target.umask}" if target.umask else ""
    return f"What is made there {' and '.join(filter(None, (group, umask)))}."


def _folder(what: str, path: str) -> Finding:
    if not path.startswith("/") or FORBIDDEN.search(path):
        return Finding(False, f"The {what} {path!r} is not an absolute path without white space and quotes.")
    try:
        if what == "job folder":
            os.makedirs(path, exist_ok=True)
        if not os.path.isdir(path):
            return Finding(False, f"The {what} {path} is not there, or is no folder: make it, or correct the target.")
        with tempfile.NamedTemporaryFile(dir=path, prefix=".conductor-check-") as probe:
            os.link(probe.name, f"{probe.name}.link")  # guards claim by link(2)
            os.unlink(f"{probe.name}.link")
    except OSError as error:
        return Finding(False, f"The {what} can't be used: {explain(error, path).message}")
    kind = file_system(path)
    if what == "job folder" and kind in NETWORK_FILE_SYSTEMS:
        return Finding(False, f"The {what} {path} lies on {kind}: choose a folder on a disk of this machine.")
    return Finding(True, f"The {what} {path} can be written ({kind}).")


def _space(target: Target) -> Iterator[Finding]:
    for path in sorted({*target.roots, target.job_folder}):
        if os.path.isdir(path):
            free_gib = shutil.disk_usage(path).free / GIB
            enough = free_gib >= LEAST_FREE_GIB
            advice = "" if enough else f" Tomograms need more: free at least {LEAST_FREE_GIB} GiB."
            yield Finding(enough, f"{free_gib:.1f} GiB are free in {path}.{advice}")


def _limits(target: Target) -> Iterator[Finding]:
    have_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1024**2
    if target.slots < 1:
        yield Finding(False, "It has no slots: nothing is ever started there.")
    elif target.max_memory_mib > have_mib:
        yield Finding(False, f"A job may have {target.max_memory_mib} MiB; this machine has {have_mib} MiB.")
    else:
        yield Finding(True, f"{target.slots} jobs at once, each with at most {target.max_memory_mib} MiB.")
    if target.default_time_limit_s > target.max_time_limit_s:
        yield Finding(False, "The time limit for scripts that ask for none is above the longest that is allowed.")


def _bash(target: Target) -> Iterator[Finding]:
    found = shutil.which("bash") == "/bin/bash" or os.access("/bin/bash", os.X_OK)
    yield Finding(found, "/bin/bash is there." if found else "/bin/bash is not there: install bash.")


def _environment(target: Target) -> Iterator[Finding]:
    """The target's environment lines, run as before a job."""
    if not target.environment_lines.strip():
        return
    argv = after_lines(target.environment_lines, ["/bin/echo", "environment-lines-ran"])
    environment = allowed_environment(target.environment_allow)
    try:
        done = shell_for(target).run(argv, env=environment, cwd="/", timeout_s=ENVIRONMENT_TIMEOUT_S)
    except ConductorError as error:
        yield Finding(False, f"The environment lines can't be run: {error.message}")
        return
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if "environment-lines-ran" in done.stdout:
        yield Finding(not done.stderr.strip(), "The environment lines run" + (
            "." if not done.stderr.strip() else f", but complain: {last[:300]}"))  # fmt: skip
    else:
        yield Finding(False, f"The environment lines end the shell before the script could begin: {last[:300]}")
