"""Whose the files are that we and our jobs make at a target, and who else may read and write them."""

import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass

UMASK = re.compile(r"\A0{0,2}[0-7]{2}\Z")  # nothing is ever taken from the owner: our own work would stop
GROUP = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.@-]*\Z")


@dataclass(frozen=True)
class Ownership:
    """`umask` as octal text, `group` by name; empty ones leave the matter to the account.

    New folders are given to the group with the set-group-id bit: what anybody makes in them is the group's, too.
    """

    umask: str = ""
    group: str = ""

    def __bool__(self) -> bool:
        return bool(self.umask or self.group)

    @property
    def umask_number(self) -> int:
        """As subprocess takes it; -1 leaves the present one."""
        return int(self.umask, 8) if self.umask else -1

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it; those that are there stay as they are. Raises OSError.

        One that can't be given to the group is not left: the next try would take it as it is.
        """
        if not self:
            os.makedirs(path, exist_ok=True)
        elif not os.path.isdir(path):
            above = os.path.dirname(path.rstrip("/"))
            if above:
                self.make_folder(above)
            try:
                os.mkdir(path)
            except FileExistsError:
                if not os.path.isdir(path):
                    raise
            else:
                self._settle_or_remove(path)

    def settle(self, path: str) -> None:
        """Give a file or folder that we made its mode and group. Raises OSError, also where there is no such group."""
        if not self:
            return
        before = os.stat(path).st_mode
        folder = stat.S_ISDIR(before)
        if self.group:
            _give(path, self.group)
        mode = stat.S_IMODE(before) & ~stat.S_ISGID
        if self.umask:
            mode = (0o777 if folder or before & stat.S_IXUSR else 0o666) & ~self.umask_number
        os.chmod(path, mode | (stat.S_ISGID if folder and self.group else 0))  # after chown, which takes the bit away

    def _settle_or_remove(self, path: str) -> None:
        try:
            self.settle(path)
        except OSError:
            with suppress(OSError):  # somebody has put something into it
                os.rmdir(path)
            raise

    def settle_tree(self, top: str) -> None:
        """The same for all that lies in a folder, and the folder."""
        if not self:
            return
        self.settle(top)
        for folder, below, files in os.walk(top):
            for name in (*below, *files):
                if not os.path.islink(os.path.join(folder, name)):
                    self.settle(os.path.join(folder, name))


def _give(path: str, group: str) -> None:
    try:
        shutil.chown(path, group=group)
    except LookupError:
        raise OSError(f"there is no group {group} on this machine") from None
