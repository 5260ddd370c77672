"""A real OpenSSH server on loopback with one ordinary user, keys only."""

import getpass
import grp
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from jobs.tests.cluster.daemons import Daemon, until
from jobs.tests.cluster.needs import find, need, refuse
from record.tests.servers.ports import free_ports

PROGRAMS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client", "setpriv": "util-linux"}
TEST_USER = "conductor-test"
TEST_GROUP = "conductor-lab"
START_S = 10.0

SERVER_CONF = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowUsers {user}
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
MaxSessions {max_sessions}
MaxStartups 50:30:100
Subsystem sftp internal-sftp
{set_env}
"""
CLIENT_CONF = """\
Host cluster
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/client_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
"""


class SshServer:
    """Started by `start`, ended by `stop`. `home` is a folder of the user, `config` an ssh_config with host `cluster`.

    `env` is what the user's sessions get. Where we are root the user is an ordinary one made for tests, else ourselves.
    """

    def __init__(self, *, env: dict[str, str] | None = None, max_sessions: int = 20) -> None:
        need(PROGRAMS)
        self.user = ordinary_user()
        self.folder = Path(tempfile.mkdtemp(prefix="conductor-sshd-"))
        self.folder.chmod(0o755)
        (self.port,) = free_ports(1)
        self.config = self.folder / "ssh_config"
        self.known_hosts = self.folder / "known_hosts"
        self._write_files(env or {}, max_sessions)
        self.home = self.folder / "home"
        self.home.mkdir()
        entry = pwd.getpwnam(self.user)
        os.chown(self.home, entry.pw_uid, entry.pw_gid)
        self.daemon = Daemon(
            [find("sshd") or "sshd", "-D", "-e", "-f", str(self.folder / "sshd_config")], log=self.folder / "sshd.log"
        )

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where sshd separates its privileges
        self.daemon.start()
        until(self._listens, within_s=START_S, what=f"sshd listens; see {self.folder}/sshd.log")

    def stop(self) -> None:
        for pid in self.sessions():
            subprocess.run(["kill", "-KILL", str(pid)], check=False)
        self.daemon.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sessions(self) -> list[int]:
        """Process ids of the server's present connections (both halves of each)."""
        found: list[int] = []
        parents = [self.daemon.pid]
        while parents:
            done = subprocess.run(
                ["pgrep", "-x", "-P", ",".join(map(str, parents)), "sshd"], capture_output=True, text=True
            )
            parents = [int(word) for word in done.stdout.split()]
            found += parents
        return found

    def _listens(self) -> bool:
        argv = [find("ssh-keyscan") or "ssh-keyscan", "-T", "2", "-p", str(self.port), "127.0.0.1"]
        return b"ssh-ed25519" in subprocess.run(argv, capture_output=True, timeout=5).stdout

    def _write_files(self, env: dict[str, str], max_sessions: int) -> None:
        for name in ("host_key", "client_key"):
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(self.folder / name)]
            subprocess.run(argv, check=True, timeout=20)
        (self.folder / "authorized_keys").write_bytes((self.folder / "client_key.pub").read_bytes())
        host_key = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {host_key}\n")
        values = {"port": self.port, "folder": self.folder, "user": self.user, "max_sessions": max_sessions}
        pairs = " ".join(f'"{name}={value}"' for name, value in env.items())
        set_env = f"SetEnv {pairs}" if pairs else ""
        (self.folder / "sshd_config").write_text(SERVER_CONF.format(**values, set_env=set_env))
        self.config.write_text(CLIENT_CONF.format(**values))


def ordinary_user() -> str:
    """The name of an ordinary user who may sign in with a key; made where we are root, else ourselves."""
    if os.geteuid() != 0:
        return getpass.getuser()
    try:
        pwd.getpwnam(TEST_USER)
    except KeyError:
        _make_user()
    return TEST_USER


def second_group(user: str) -> str:
    """The name of a group of the user's besides their own; made where we are root."""
    if os.geteuid() == 0:
        subprocess.run(["groupadd", "--force", TEST_GROUP], check=True, timeout=30)
        subprocess.run(["usermod", "--append", "--groups", TEST_GROUP, user], check=True, timeout=30)
        return TEST_GROUP
    for number in os.getgroups():
        if number != pwd.getpwnam(user).pw_gid:
            return grp.getgrgid(number).gr_name
    refuse(f"{user} is in one group only")
    raise AssertionError


def _make_user() -> None:
    # A password of `*` is none; the `!` that useradd leaves would mean that the account is locked, even for keys.
    argv = ["useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", TEST_USER]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    if done.returncode and "already exists" not in done.stderr:
        refuse(f"the user {TEST_USER} can't be made: {done.stderr.strip()}")
