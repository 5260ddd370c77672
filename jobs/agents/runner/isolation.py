"""How an agent's program is kept from what is Conductor's: bubblewrap, another user, or not at all, which is then said.

In bubblewrap it sees the system read-only, a folder of its own that it may write in, the folders that its configuration
names (read-only), and the network unless that is switched off; no other process, no home, nothing of Conductor's.
It keeps Conductor's user, so what that user may read and others may not (the site's secrets below /etc) is covered.
"""

import os
import pwd
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

BUBBLEWRAP, OTHER_USER, UNISOLATED = "bubblewrap", "other_user", "unisolated"
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt")
SETTINGS = ("/etc", "/opt")  # where a site's settings and secrets may lie
COVERED_DEEP = 3  # levels below these that are looked through
PROBE_S = 10


class NoIsolation(RuntimeError):
    """It is required, and can't be had here."""


@dataclass(frozen=True)
class Cage:
    """What is found here: the kind, the user for OTHER_USER, and the folders that the program may see besides."""

    kind: str
    user: str = ""
    readable: list[str] = field(default_factory=list)
    network: bool = True

    def command(self, argv: list[str], desk: str) -> list[str]:
        """What is started in place of `argv`."""
        if self.kind != BUBBLEWRAP:
            return argv
        return [*_bubblewrap(desk, self.readable, self.network), "--", *argv]

    def options(self) -> dict[str, Any]:
        """What subprocess is told besides."""
        if self.kind != OTHER_USER:
            return {}
        entry = pwd.getpwnam(self.user)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def give(self, desk: str) -> None:
        """Let the program's user write in its folder."""
        if self.kind == OTHER_USER:
            entry = pwd.getpwnam(self.user)
            for folder, _, names in os.walk(desk):
                for path in [folder, *(f"{folder}/{name}" for name in names)]:
                    os.chown(path, entry.pw_uid, entry.pw_gid)


def find_cage(wish: str, *, user: str, readable: list[str], network: bool) -> Cage:
    """The best there is here, by what is tried and not by what is hoped; NoIsolation where `wish` is required."""
    if wish == "none":
        return Cage(UNISOLATED)
    if _bubblewrap_works(network):
        return Cage(BUBBLEWRAP, readable=readable, network=network)
    if user and os.geteuid() == 0 and _is_user(user):
        return Cage(OTHER_USER, user=user)
    if wish == "required":
        raise NoIsolation(
            "It may only be asked in isolation, and neither does bubblewrap work here nor is there another user to run "
            "it as (CONDUCTOR_AGENT_USER, which needs root). Install bubblewrap, or let the agent run without."
        )
    return Cage(UNISOLATED)


def _bubblewrap(desk: str, readable: list[str], network: bool) -> list[str]:
    argv = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--unshare-all"]
    argv += ["--share-net"] if network else []
    for path in SYSTEM:
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    argv += _covers()
    argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108 - a new one, seen by the program alone
    argv += ["--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve"] if network else []
    for path in readable:
        argv += ["--ro-bind", path, path]
    return [*argv, "--bind", desk, desk, "--chdir", desk]


def _covers() -> list[str]:
    """What lays an empty folder, or an empty file, over each thing of the system that is not for everybody to read."""
    argv: list[str] = []
    for top in SETTINGS:
        for path, is_folder in _private(top, COVERED_DEEP):
            argv += ["--tmpfs", path] if is_folder else ["--ro-bind", os.devnull, path]
    return argv


def _private(folder: str, deep: int) -> Iterator[tuple[str, bool]]:
    """(path, whether it is a folder) of what we may read below `folder`, and others may not; not what lies in such."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # not there, or not ours to read either
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not (is_folder or entry.is_file(follow_symlinks=False)):
            continue
        for_all = stat.S_IROTH | stat.S_IXOTH if is_folder else stat.S_IROTH
        if entry.stat(follow_symlinks=False).st_mode & for_all != for_all:
            if os.access(entry.path, os.X_OK if is_folder else os.R_OK):
                yield entry.path, is_folder
        elif is_folder and deep > 1:
            yield from _private(entry.path, deep - 1)


def _bubblewrap_works(network: bool) -> bool:
    """Whether it can be had: it may be missing, or the kernel may not let us make name spaces."""
    if shutil.which("bwrap") is None:
        return False
    try:
        tried = subprocess.run(  # noqa: S603 - a list of arguments
            [*_bubblewrap("/tmp", [], network), "--", "true"], stdin=subprocess.DEVNULL, capture_output=True,  # noqa: S108
            timeout=PROBE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def _is_user(name: str) -> bool:
    try:
        return pwd.getpwnam(name).pw_uid != 0
    except KeyError:
        return False
