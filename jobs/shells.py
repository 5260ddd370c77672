"""A target's files and commands, through one small door, so that a target may lie elsewhere later.

Paths are absolute text. Everything raises AdapterError or BadInput, in words; never OSError.
"""

import glob as globbing
import os
import re
import secrets
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from errno import EACCES, EAGAIN, EDQUOT, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, ENOSPC, EPERM, EROFS, ESTALE
from typing import Protocol

from jobs.calls import TooMuch, call
from jobs.deadline import shorten
from jobs.environment import ALLOWED
from jobs.hosts import this_host
from jobs.models import Cluster, Target
from jobs.ordinary import open_ordinary
from jobs.ownership import Ownership
from jobs.printed import moment, printed
from record.errors import AdapterError, BadInput

TRANSIENT = frozenset({ENOSPC, EDQUOT, EAGAIN, EMFILE, ENFILE, ENOMEM, ESTALE})
WORDS = {
    ENOENT: "is not there",
    EACCES: "can't be reached: permission denied",
    EPERM: "can't be changed: not permitted",
    ENOSPC: "can't be written: the disk is full",
    EDQUOT: "can't be written: the disk quota is used up",
    EROFS: "can't be written: the file system is read-only",
    ENAMETOOLONG: "has too long a name",
}
# Also what is not seen or turns the text around (zero-width and direction marks): a path is shown to people.
FORBIDDEN = re.compile(
    r"""[\x00-\x20\x7f-\x9f\s'"`$\\;&|<>*?(){}\[\]!\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]"""
)
PATH_LIMIT = 500
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"  # for what we ourselves run on a target
NAME_LIMIT_BYTES = 255  # of one folder or file, on all usual file systems


@dataclass(frozen=True)
class FileFact:
    path: str
    size_bytes: int
    modified_at: datetime


@dataclass(frozen=True)
class Completed:
    """What a command answered: text that can be shown (see jobs.printed).

    A negative `returncode` is the signal that ended it, as in subprocess.
    """

    returncode: int
    stdout: str
    stderr: str


class Shell(Protocol):
    """A target's file system and its commands."""

    def glob(self, root: str, patterns: list[str]) -> dict[str, list[FileFact]]:
        """pattern -> files that match it below `root`, sorted by path; an empty list where none does."""

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file from `offset` on, at most `limit`."""

    def size(self, path: str) -> int:
        """Size of a file in bytes."""

    def write(self, path: str, data: bytes) -> None:
        """Write a file whole or not at all (temporary file, fsync, rename); makes its folders."""

    def copy_tree(self, source: str, destination: str) -> None:
        """Copy a folder from where Conductor runs to the target; files that are there are replaced."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it; nothing happens where it is there."""

    def real_paths(self, paths: list[str]) -> list[str]:
        """The same paths with links followed; they need not exist."""

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        """What these variables hold there; unset ones are left out. The name LC_ stands for all of its kind."""

    def run(self, argv: list[str], *, env: dict[str, str], cwd: str, timeout_s: float) -> Completed:
        """Run a short command to its end. The environment is `env` and nothing else."""


def shell_for(target: Target) -> Shell:
    """The shell of a target; BadInput for one whose cluster has not been described.

    AdapterError where the target belongs to another host, and what lies there can't be reached from this one: its files
    are that host's own, or a person has opened the connection there. Over other connections any host may look.
    """
    login = None if target.kind == "local" else cluster_of(target).login()
    if target.host != this_host() and (login is None or login.by_person):
        raise AdapterError(
            f"Target {target.name} belongs to the host {target.host}, and this is {this_host()}: what lies there can't "
            f"be seen from here. Ask the Conductor on {target.host}; what runs there goes on.",
            transient=True,
        )
    if login is None:
        return LocalShell(target.ownership())
    from jobs.ssh import SshShell  # it builds on this module

    return SshShell(login)


def environment_of(target: Target) -> dict[str, str]:
    """What a target's jobs may see of the environment there: the usual, all of LC_, and what the target allows."""
    return shell_for(target).environment([*ALLOWED, "LC_", *target.environment_allow])


def cluster_of(target: Target) -> Cluster:
    """What is known of a target's cluster; BadInput where nothing is."""
    cluster = Cluster.objects.filter(pk=target.pk).first()
    if cluster is None:
        raise BadInput(f"Target {target.name} is a cluster, but how to reach it is not set: complete it in the admin.")
    cluster.target = target
    return cluster


def is_remote(target: Target) -> bool:
    """Whether a target's files lie on another host, so that every look at them is a call over a connection."""
    return target.kind != "local" and cluster_of(target).shell == "ssh"


@contextmanager
def in_words(path: str) -> Iterator[None]:
    """Turns an OSError about `path` into an AdapterError that says what is wrong with it."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


def explain(error: OSError, path: str) -> AdapterError:
    """An OSError in words; transient where waiting can help (a full disk, too many open files)."""
    what = WORDS.get(error.errno or 0, f"failed: {error.strerror or error}")
    return AdapterError(f"{error.filename or path} {what}.", transient=error.errno in TRANSIENT)


@dataclass(frozen=True)
class LocalShell:
    """This machine's own files and commands."""

    ownership: Ownership = Ownership()

    def glob(self, root: str, patterns: list[str]) -> dict[str, list[FileFact]]:
        return {pattern: self._matching(root, pattern) for pattern in patterns}

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        with in_words(path), open_ordinary(path) as handle:
            handle.seek(offset)
            return handle.read(-1 if limit is None else limit)

    def size(self, path: str) -> int:
        with in_words(path):
            return os.stat(path).st_size

    def write(self, path: str, data: bytes) -> None:
        with in_words(path):
            self.ownership.make_folder(os.path.dirname(path))
            write_whole(path, data, sync=True, settle=self.ownership.settle)

    def copy_tree(self, source: str, destination: str) -> None:
        with in_words(destination):
            self.ownership.make_folder(os.path.dirname(destination))
            try:
                shutil.copytree(source, destination, dirs_exist_ok=True)
                self.ownership.settle_tree(destination)
            except shutil.Error as error:  # a list of (source, destination, why)
                raise AdapterError(f"{source} can't be copied: {error.args[0][0][2]}", transient=False) from error

    def make_folder(self, path: str) -> None:
        with in_words(path):
            self.ownership.make_folder(path)

    def real_paths(self, paths: list[str]) -> list[str]:
        with in_words(paths[0] if paths else "/"):
            return [os.path.realpath(path) for path in paths]

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        every = dict(os.environ)
        return {name: value for name, value in every.items() if name in names or ("LC_" in names and name[:3] == "LC_")}

    def run(self, argv: list[str], *, env: dict[str, str], cwd: str, timeout_s: float) -> Completed:
        timeout_s = shorten(timeout_s)
        with in_words(cwd if not os.path.isdir(cwd) else argv[0]):
            try:
                done = call(argv, env=env, cwd=cwd, timeout_s=timeout_s, umask=self.ownership.umask_number)
            except subprocess.TimeoutExpired as error:
                raise AdapterError(f"{argv[0]} did not end within {timeout_s:g} s.", transient=True) from error
            except TooMuch as error:
                raise AdapterError(f"{argv[0]} {error}.", transient=True) from error
        return Completed(done.returncode, printed(done.stdout), printed(done.stderr))

    def _matching(self, root: str, pattern: str) -> list[FileFact]:
        if os.path.isabs(pattern) or ".." in pattern.split("/"):
            raise BadInput(f"The pattern {pattern!r} leaves the folder it is looked for in.")
        with in_words(root):
            return sorted(_facts(root, pattern), key=lambda fact: fact.path)


def write_whole(
    path: str, data: bytes, *, sync: bool, mode: int = 0o644, settle: Callable[[str], None] | None = None
) -> None:
    """Write `data` beside `path` and rename it there; with `sync` it outlives a power cut. Raises OSError.

    `settle` is done to it before it has its name.
    """
    scratch = f"{path}.part{secrets.token_hex(6)}"  # of this call alone: other threads may write the same file
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            if sync:
                os.fsync(handle.fileno())
        if settle is not None:
            settle(scratch)
        os.rename(scratch, path)
    except OSError:
        with suppress(OSError):
            os.unlink(scratch)
        raise


def within_roots(target: Target, path: str) -> str:
    """The real path (links followed) of `path`, which need not exist yet; BadInput unless it lies in a root.

    Refused in words: not absolute, outside the roots or led out of them by a link, too long, and characters that
    scripts of other people would trip over (white space, quotes, control characters, what a shell expands).
    """
    if not path.startswith("/"):
        raise BadInput(f"{path!r} is not an absolute path: begin it with /.")
    if len(path) > PATH_LIMIT:
        raise BadInput(f"The path is {len(path)} characters long; at most {PATH_LIMIT} are possible.")
    if bad := FORBIDDEN.search(path):
        raise BadInput(
            f"The path {path!r} holds {bad[0]!r}: no white space, quotes, unseen characters or those with a meaning "
            "in a shell."
        )
    if ".." in path.split("/"):
        raise BadInput(f"The path {path!r} holds `..`: write where it leads instead.")
    if any(len(name.encode()) > NAME_LIMIT_BYTES for name in path.split("/")):
        raise BadInput(f"A name in the path {path[:80]}… is longer than {NAME_LIMIT_BYTES} bytes.")
    # Where links lead elsewhere is asked there, when the path is about to be used.
    if target.host != this_host() or is_remote(target):
        return _within(target, path, os.path.normpath(path), [os.path.normpath(root) for root in target.roots])
    with in_words(path):
        return _within(target, path, os.path.realpath(path), [os.path.realpath(root) for root in target.roots])


def followed_within_roots(target: Target, paths: list[str]) -> list[str]:
    """The real paths, asked where they lie; BadInput where a link leads one out of the target's roots."""
    real = shell_for(target).real_paths([*paths, *target.roots])
    roots = real[len(paths) :]
    return [_within(target, path, found, roots) for path, found in zip(paths, real, strict=False)]


def _within(target: Target, path: str, real: str, roots: list[str]) -> str:
    if not any(real == root or real.startswith(root.rstrip("/") + "/") for root in roots):
        allowed = ", ".join(target.roots) or "none"
        raise BadInput(f"{path} lies outside the folders that target {target.name} may touch ({allowed}).")
    return real


def _names(root: str, pattern: str) -> Iterable[str]:
    """Names below `root` that match. `**` follows no links: one that leads up or out would have no end."""
    if not globbing.has_magic(pattern):
        return [pattern]
    parts = pattern.split("/")
    if "**" not in parts:
        return globbing.iglob(pattern, root_dir=root)
    at = parts.index("**")
    before, after = "/".join(parts[:at]), "/".join(parts[at + 1 :]) or "*"
    tops = _names(root, before) if before else [""]
    folders = (folder for top in tops for folder in _folders(os.path.join(root, top)))
    found = (os.path.join(folder, name) for folder in folders for name in _names(folder, after))
    return {os.path.relpath(path, root) for path in found}


def _folders(top: str) -> Iterator[str]:
    """`top` and all folders below it, but for hidden ones, which patterns don't match either."""
    for folder, below, _ in os.walk(top):
        below[:] = [name for name in below if not name.startswith(".")]
        yield folder


def _facts(root: str, pattern: str) -> Iterator[FileFact]:
    for name in _names(root, pattern):
        path = os.path.join(root, name)
        with suppress(FileNotFoundError, NotADirectoryError):
            facts = os.stat(path)
            if stat.S_ISREG(facts.st_mode):  # a pipe would block whoever reads it, a device never ends
                yield FileFact(path, facts.st_size, moment(facts.st_mtime))
