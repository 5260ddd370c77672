"""A real systemd of its own, in namespaces, with the units of deploy/ installed as docs/operating.md says.

It sees this machine's files, but for what is laid over them: /etc is a copy with the units, the environment file and a
user `conductor`; /opt/conductor is this checkout; /run and /srv are empty. Of the machine's own units none is there, so
nothing of the machine is touched. It needs root.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from conductor_site.tests.stage import LONG_S, ROOT

SYSTEMD = Path("/lib/systemd/systemd")
PREFIX = Path(sys.prefix).resolve()
UID = 64217  # of no one else, most likely
CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}  # nothing of the tests' own settings
TARGETS = ["sysinit", "basic", "multi-user", "network", "timers", "shutdown"]  # without what a whole machine starts

LAY_OVER = r"""
set -e
folder=$1 root=$2 prefix=$3 python=$4 closed=$5
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /srv
mount -t tmpfs tmpfs /opt
mount -t tmpfs tmpfs /var/lib/systemd
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/systemd /opt/conductor /run/lock
if ! mount -t cgroup -o none,name=systemd none /sys/fs/cgroup/systemd; then
  umount /sys/fs/cgroup
  mount -t cgroup2 none /sys/fs/cgroup
fi
mount --bind "$root" /opt/conductor
mount --bind "$prefix" /opt/conductor/.venv
mount --bind "$folder/etc" /etc
for place in /usr/lib/systemd/system /usr/lib/systemd/system-generators; do mount --bind "$folder/none" "$place"; done
# What others may not enter (somebody's home, most likely) is laid over; of what was in it, only the Python is shown.
for place in 0 1; do mkdir -p /run/kept/$place; done
mount --bind "$python" /run/kept/0
mount --bind "$prefix" /run/kept/1
for place in $closed; do mount -t tmpfs -o mode=0755 tmpfs "$place"; done
[ -d "$python" ] || { mkdir -p "$python"; mount --bind /run/kept/0 "$python"; }
[ -d "$prefix" ] || { mkdir -p "$prefix"; mount --bind /run/kept/1 "$prefix"; }
install -d -o conductor -g conductor /srv/conductor /srv/work /srv/pipelines /srv/backup
export container=private
exec /lib/systemd/systemd --system --unit=basic.target --log-target=null --show-status=no
"""


def why_not() -> str:
    """Why none can be had here; "" where it can be tried."""
    if os.geteuid() != 0:
        return "a systemd of one's own needs root"
    if missing := [name for name in ("unshare", "nsenter", "runuser") if shutil.which(name) is None]:
        return f"{', '.join(missing)} missing: they come with util-linux"
    if not SYSTEMD.exists():
        return "systemd is missing: install Debian's package systemd"
    if Path(sys.prefix) == Path(sys.base_prefix) or not (ROOT / ".venv").exists():
        return "the units expect a virtual environment .venv in the checkout"
    if not all(_is_open(path) for path in (ROOT, PREFIX, Path(sys.base_prefix))):
        return "this checkout or its Python can't be read by another user"
    if any(str(path.resolve()).startswith(("/opt/", "/run/", "/srv/")) for path in (ROOT, Path(sys.base_prefix))):
        return "this checkout or its Python lies where the units' folders are laid over"
    return ""


class PrivateSystemd:
    """One such systemd. Its services write into `log`, instead of the journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._lay_out()
        lay_over = ["bash", "-c", LAY_OVER, "private", str(folder), str(ROOT), str(PREFIX), sys.base_prefix, _closed()]
        apart = ["unshare", "--mount", "--pid", "--cgroup", "--ipc", "--fork", "--kill-child=KILL"]
        with open(self.log, "ab") as log:
            self.outer = subprocess.Popen(apart + lay_over, env=CLEAN, stdout=log, stderr=log)

    def is_up(self) -> bool:
        """Wait until it answers; False where it can't be started here, which the log tells."""
        deadline = time.monotonic() + LONG_S
        while self.outer.poll() is None and time.monotonic() < deadline:
            if self._inner() and self.run("systemctl", "is-active", "basic.target", fails=None) == "active\n":
                return True
            time.sleep(0.05)
        return False

    def run(self, *argv: str, fails: bool | None = False) -> str:
        """Run a command beside it; what it printed. `fails=None`: either will do."""
        entered = ["nsenter", "-t", str(self._inner()), "--mount", "--pid", "--ipc", *argv]
        done = subprocess.run(
            entered, env=CLEAN, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert fails is None or (done.returncode != 0) == fails, f"{argv}: {done.stdout}\n{self.told()}"
        return done.stdout

    def conductor(self, *arguments: str) -> str:
        """Run `conductor ...`, by the script of deploy/."""
        return self.run("sh", "/opt/conductor/deploy/conductor", *arguments)

    def shown(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def until(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + LONG_S
        while not holds():
            assert time.monotonic() < deadline, f"not within {LONG_S} s: {what}\n{self.told()}"
            time.sleep(0.1)

    def told(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def stop(self) -> None:
        """End it, and with it all that it has started: it is the first process of its namespace.

        Its web server is stopped before: systemd then removes the private /tmp that it made in the machine's own.
        """
        if inner := self._inner():
            self.run("systemctl", "stop", "conductor-web", fails=None)
            os.kill(inner, signal.SIGKILL)
        self.outer.kill()
        self.outer.wait(LONG_S)

    def _inner(self) -> int:
        """Its process id, seen from outside; 0 where there is none."""
        try:
            children = Path(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children").read_text().split()
        except FileNotFoundError:
            return 0
        return int(children[0]) if children else 0

    def _lay_out(self) -> None:
        etc, none = self.folder / "etc", self.folder / "none"
        none.mkdir()
        for name in TARGETS:
            (none / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
        shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("systemd", "ssl", "alternatives"))
        units = etc / "systemd" / "system"
        units.mkdir(parents=True)
        for path in (ROOT / "deploy").iterdir():
            if path.suffix in (".service", ".timer"):
                shutil.copy(path, units)
        (units / "conductor-.service.d").mkdir()
        told = f"[Service]\nStandardOutput=append:{self.log}\nStandardError=inherit\n"
        (units / "conductor-.service.d" / "log.conf").write_text(told)
        with open(etc / "passwd", "a") as passwd, open(etc / "group", "a") as group:
            passwd.write(f"conductor:x:{UID}:{UID}::/srv/conductor:/usr/sbin/nologin\n")
            group.write(f"conductor:x:{UID}:\n")
        self._configure(etc / "conductor")

    def _configure(self, folder: Path) -> None:
        folder.mkdir()
        example = (ROOT / "deploy/conductor.env.example").read_text()
        example = example.replace("/var/lib/conductor", "/srv/conductor")
        (folder / "conductor.env").write_text(example)


def _closed() -> str:
    """The folders above this Python that others may not enter, the outermost ones; separated by spaces."""
    above = {path for python in (PREFIX, Path(sys.base_prefix)) for path in python.parents if not _is_open(path)}
    return " ".join(sorted(str(path) for path in above if not above.intersection(path.parents)))


def _is_open(path: Path) -> bool:
    return path.stat().st_mode & 0o005 == 0o005
