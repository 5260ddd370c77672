"""A target's files and commands over OpenSSH, through one connection that all calls share (ControlMaster).

The remote side needs bash, coreutils, findutils and tar. What is to be run travels over stdin, not on the command line:
neither the environment nor long lists show in `ps`, and only one short, constant line meets the user's own login shell.
The true exit code comes back in a line of its own on stderr; without that line the connection failed, whatever ssh's
own exit code says (255 is a failed connection *or* a remote command that ended by 255 or a signal).
"""

import hashlib
import io
import os
import re
import secrets
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jobs.calls import MOST_BYTES, TooMuch, call
from jobs.cluster_models import HOST
from jobs.deadline import left_s
from jobs.ownership import Ownership
from jobs.printed import moment, printed
from jobs.shells import Completed, FileFact, in_words
from record.errors import AdapterError, BadInput

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
CALL_S = 60.0
FILE_S = 600.0
CONNECT_S = 10
SLACK_S = 15.0
TIMED_OUT = 124  # of timeout(1)
SLOW_S = 30.0  # so long pages leave a host alone that did not answer them in time: else each would wait anew
LONGEST_FOLDER_BYTES = 108 - len("/") - 40 - len(".0123456789abcdef") - 1  # sun_path, less the name of a socket
COPY_BYTES = 64 * 1024 * 1024

# Reads what to do from stdin, NUL-terminated; what is left there belongs to the command. Constant, one line.
_LOADER = (
    'next() { IFS= read -r -d "" "$1"; }; next nonce; next feed; next limit; next umask; next cwd; next count; '
    'if [ "$count" != keep ]; then for name in $(compgen -e); do unset "$name"; done; '
    'while [ "$count" -gt 0 ]; do next pair; export "$pair"; count=$((count - 1)); done; fi; '
    'next count; argv=(); while [ "$count" -gt 0 ]; do next word; argv+=("$word"); count=$((count - 1)); done; '
    'echo "$nonce"; echo "$nonce" >&2; [ -z "$umask" ] || umask "$umask"; '
    'if cd -- "$cwd"; then exec 3>&2 2> /dev/null; '  # bash's own word on a signal is no word of the command
    'if [ "$feed" = 1 ]; then command -p timeout -k 5 "$limit" "${argv[@]}" 2>&3 3>&-; '
    'else command -p timeout -k 5 "$limit" "${argv[@]}" < /dev/null 2>&3 3>&-; fi; code=$?; exec 2>&3; '
    "else code=cd; fi; "
    'echo >&2; echo "$nonce $code" >&2'
)
_ERRORS = {
    "No such file or directory": "is not there",
    "Permission denied": "can't be reached: permission denied",
    "Operation not permitted": "can't be changed: not permitted",
    "No space left on device": "can't be written: the disk is full",
    "Disk quota exceeded": "can't be written: the disk quota is used up",
    "Read-only file system": "can't be written: the file system is read-only",
    "File name too long": "has too long a name",
}
_PASSING = ("No space left on device", "Disk quota exceeded", "Stale file handle", "Resource temporarily unavailable")

_READ = r"""
set -o pipefail
[ ! -e "$1" ] || [ -f "$1" ] || [ -d "$1" ] || { echo "it is no ordinary file" >&2; exit 1; }
[ -f "$1" ] && [ -r "$1" ] || { cat -- "$1"; exit 1; }
{ tail -c "+$(($2 + 1))" -- "$1" | { [ "$3" -lt 0 ] && cat || head -c "$3"; } | tee /dev/fd/3 | sha256sum >&2; } 3>&1
"""
# Makes a folder and those above it. New ones are given to the group, and with the bit what is made in them, too.
_MAKE = r"""
give() { [ -z "$group" ] || { chgrp -- "$group" "$1" && chmod g+s -- "$1"; }; }
make() {
  [ ! -d "$1" ] || return 0
  local above=${1%/*}
  [ -z "$above" ] || make "$above" || return
  mkdir -- "$1" || { [ -d "$1" ]; return; }
  give "$1" || { rmdir -- "$1"; return 1; }
}
"""
_WRITE = (
    _MAKE
    + r"""
folder=${1%/*} scratch=$1.part$$ group=$3
make "$folder" && cat > "$scratch" || { rm -f -- "$scratch"; exit 1; }
read -r digest _ < <(sha256sum < "$scratch")
[ "$digest" = "$2" ] || { rm -f -- "$scratch"; exit 3; }
[ -z "$group" ] || chgrp -- "$group" "$scratch" || { rm -f -- "$scratch"; exit 1; }
sync -- "$scratch" 2>/dev/null || sync
mv -T -- "$scratch" "$1" || { rm -f -- "$scratch"; exit 1; }
"""
)
_UNPACK = (
    _MAKE
    + r"""
group=$2
make "$1" && tar -x -f - -C "$1" --no-same-owner --no-same-permissions || exit 1
[ -z "$group" ] || { chgrp -R -- "$group" "$1" && find "$1" -type d -exec chmod g+s -- {} +; }
"""
)
_GLOB = r"""
shopt -s globstar nullglob
cd -- "$1" 2>/dev/null || { [ ! -e "$1" ] && exit 0; cd -- "$1" || exit 1; }
shift; IFS=
for pattern; do
  printf 'pattern %s\0' "$pattern"
  found=($pattern)
  [ ${#found[@]} -eq 0 ] || printf '%s\0' "${found[@]}" | xargs -0 stat -L --printf '%F|%s|%.6Y|%n\0' -- 2>/dev/null
done
exit 0
"""


_SLOW: dict["Login", float] = {}  # until when, by time.monotonic()


class SignInNeeded(AdapterError):
    """The connection has to be opened by a person. `command` is what they type."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message, transient=True, extra={"sign_in": command})
        self.command = command


@dataclass(frozen=True)
class Login:
    """How a host is reached. `host` is a name of the ssh_config, or user@host; everything else is optional.

    With `by_person` no connection is ever opened by Conductor (a second factor is asked for): a person opens it.
    `known_hosts` replaces the user's own file; a host that is not known there is refused either way.
    """

    host: str
    config_file: str = ""
    identity_file: str = ""
    known_hosts: str = ""
    port: int = 0
    by_person: bool = False
    control_folder: str = ""
    keep_s: int = 600
    ownership: Ownership = Ownership()

    def __post_init__(self) -> None:
        if not HOST.match(self.host):
            raise BadInput(f"{self.host!r} can't be the name of a host: user@host, or a name of the ssh_config.")

    @property
    def control_path(self) -> str:
        """Where the shared connection's socket lies; its name is short, since sockets' paths must be (104 bytes)."""
        folder = self.control_folder or f"{tempfile.gettempdir()}/conductor-ssh-{os.getuid()}"
        return f"{folder}/%C"

    def options(self) -> list[str]:
        """Options of every call: nothing is asked, only known hosts are spoken to, dead sessions are noticed."""
        options = ["-F", self.config_file] if self.config_file else []
        options += ["-i", self.identity_file, "-o", "IdentitiesOnly=yes"] if self.identity_file else []
        options += ["-p", str(self.port)] if self.port else []
        pairs = {
            "BatchMode": "yes", "StrictHostKeyChecking": "yes", "ConnectTimeout": str(CONNECT_S),
            "ServerAliveInterval": "5", "ServerAliveCountMax": "2", "ControlPath": self.control_path,
            "ClearAllForwardings": "yes", "ForwardAgent": "no", "RequestTTY": "no", "PermitLocalCommand": "no",
            "EscapeChar": "none", "LogLevel": "ERROR",
        } | ({"UserKnownHostsFile": self.known_hosts} if self.known_hosts else {})  # fmt: skip
        return options + [word for name, value in pairs.items() for word in ("-o", f"{name}={value}")]

    def sign_in_command(self) -> str:
        """What a person types, on the host where Conductor runs and as its user, to open the connection."""
        kept = ("StrictHostKeyChecking", "UserKnownHostsFile", "ControlPath", "ServerAlive", "IdentitiesOnly")
        options = self.options()
        argv = ["ssh", "-fN", "-o", "ControlMaster=yes", "-o", "ControlPersist=yes"]
        for name, value in zip(options[::2], options[1::2], strict=True):
            if name != "-o" or value.startswith(kept):
                argv += [name, value]
        return shlex.join([*argv, self.host])


@dataclass
class _Said:
    """What came back of a call."""

    code: str
    stdout: bytes
    stderr: str


@dataclass
class SshShell:
    """See jobs.shells.Shell.

    AdapterError (transient) where the host can't be reached; SignInNeeded where a person has to open the connection.
    """

    login: Login
    _program: str = field(default_factory=lambda: shutil.which("ssh") or "ssh")

    def glob(self, root: str, patterns: list[str]) -> dict[str, list[FileFact]]:
        for pattern in patterns:
            if os.path.isabs(pattern) or ".." in pattern.split("/"):
                raise BadInput(f"The pattern {pattern!r} leaves the folder it is looked for in.")
        said = self._bash(_GLOB, [root, *patterns], path=root)
        found: dict[str, list[FileFact]] = {pattern: [] for pattern in patterns}
        current = ""
        for line in said.stdout.decode(errors="surrogateescape").split("\0"):
            if line.startswith("pattern "):
                current = line.removeprefix("pattern ")
            elif line.count("|") >= 3:
                kind, size, changed, name = line.split("|", 3)
                if kind != "directory":
                    when = moment(float(changed))
                    found[current].append(FileFact(os.path.join(root, name), int(size), when))
        return {pattern: sorted(facts, key=lambda fact: fact.path) for pattern, facts in found.items()}

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        words = [path, str(offset), str(-1 if limit is None else limit)]
        most_bytes = sys.maxsize if limit is None else limit + MOST_BYTES  # a file has an end
        said = self._bash(_READ, words, path=path, timeout_s=FILE_S, also_ok=("141",), most_bytes=most_bytes)
        digest = re.findall(r"^([0-9a-f]{64}) ", said.stderr, re.MULTILINE)
        if not digest or digest[-1] != hashlib.sha256(said.stdout).hexdigest():
            raise AdapterError(f"{path} arrived changed from {self.login.host}.", transient=True)
        return said.stdout

    def size(self, path: str) -> int:
        return int(self._bash('stat -L -c %s -- "$1"', [path], path=path).stdout)

    def write(self, path: str, data: bytes) -> None:
        words = [path, hashlib.sha256(data).hexdigest(), self.login.ownership.group]
        said = self._bash(_WRITE, words, path=path, feed=data, timeout_s=FILE_S, also_ok=("3",))
        if said.code == "3":
            raise AdapterError(f"{path} arrived changed on {self.login.host}; nothing was written.", transient=True)

    def copy_tree(self, source: str, destination: str) -> None:
        packed, digests = _pack(source)
        words = [destination, self.login.ownership.group]
        self._bash(_UNPACK, words, path=destination, feed=packed, timeout_s=FILE_S)
        check = 'cd -- "$1" && sha256sum --check --quiet --strict - >&2'
        if digests:
            self._bash(check, [destination], path=destination, feed=digests, timeout_s=FILE_S)

    def make_folder(self, path: str) -> None:
        self._bash(f'{_MAKE} group=$2; make "$1"', [path, self.login.ownership.group], path=path)

    def real_paths(self, paths: list[str]) -> list[str]:
        if not paths:
            return []
        said = self._bash('realpath -m -z -- "$@"', paths, path=paths[0])
        return said.stdout.decode(errors="surrogateescape").split("\0")[:-1]

    def environment(self, names: Sequence[str]) -> dict[str, str]:
        said = self._call(["env", "-0"], env=None, cwd="/", timeout_s=CALL_S)
        pairs = [entry.partition("=") for entry in said.stdout.decode(errors="surrogateescape").split("\0") if entry]
        return {name: value for name, _, value in pairs if name in names or (name.startswith("LC_") and "LC_" in names)}

    def run(self, argv: list[str], *, env: dict[str, str], cwd: str, timeout_s: float) -> Completed:
        said = self._call(argv, env=env, cwd=cwd, timeout_s=timeout_s)
        if said.code == "cd":
            raise _explain(said.stderr, cwd)
        code = int(said.code)
        if code == TIMED_OUT:
            raise AdapterError(f"{argv[0]} did not end within {timeout_s:g} s.", transient=True)
        if code == 127 and re.search(r"timeout: failed to run command .*: No such file", said.stderr):
            raise AdapterError(f"{argv[0]} is not there.", transient=False)
        by_signal = 128 < code < 128 + signal.NSIG
        return Completed(128 - code if by_signal else code, printed(said.stdout), said.stderr)

    def is_open(self) -> bool:
        """Whether the shared connection is there and answers."""
        argv = [self._program, *self.login.options(), "-O", "check", self.login.host]
        return self._ssh(argv, b"", timeout_s=CONNECT_S + SLACK_S).returncode == 0

    def close(self) -> None:
        """Ask the shared connection to end; it does so in a moment."""
        argv = [self._program, *self.login.options(), "-O", "exit", self.login.host]
        self._ssh(argv, b"", timeout_s=CONNECT_S + SLACK_S)

    def _bash(
        self, script: str, words: list[str], *, path: str, feed: bytes | None = None, timeout_s: float = CALL_S,
        also_ok: tuple[str, ...] = (), most_bytes: int = MOST_BYTES,
    ) -> _Said:  # fmt: skip
        argv = ["/bin/bash", "-c", script, "conductor", *words]
        env = {"PATH": SYSTEM_PATH, "LC_ALL": "C"}
        said = self._call(argv, env=env, cwd="/", timeout_s=timeout_s, feed=feed, most_bytes=most_bytes)
        if said.code == str(TIMED_OUT):
            raise AdapterError(f"{path} could not be dealt with within {timeout_s:g} s.", transient=True)
        if said.code != "0" and said.code not in also_ok:
            raise _explain(said.stderr, path)
        return said

    def _call(
        self, argv: list[str], *, env: dict[str, str] | None, cwd: str, timeout_s: float, feed: bytes | None = None,
        most_bytes: int = MOST_BYTES,
    ) -> _Said:  # fmt: skip
        if any("\0" in word for word in [*argv, *(env or {}).values()]):
            raise AdapterError("An argument or a variable holds a NUL character.", transient=False)
        nonce = f"conductor-{secrets.token_hex(12)}"
        pairs = None if env is None else [f"{name}={value}" for name, value in env.items()]
        head = [nonce, "1" if feed is not None else "0", f"{timeout_s:g}", self.login.ownership.umask, cwd]
        head += ["keep"] if pairs is None else [str(len(pairs)), *pairs]
        head += [str(len(argv)), *argv]
        fed = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in head) + (feed or b"")
        done = self._ssh(self._argv(), fed, timeout_s=timeout_s + CONNECT_S + SLACK_S, most_bytes=most_bytes)
        return self._understand(done, nonce)

    def _argv(self) -> list[str]:
        remote = shlex.join(["exec", "/bin/bash", "--noprofile", "--norc", "-c", _LOADER])
        options = self.login.options()
        if self.login.by_person:
            # Without the person's connection nothing is tried: a failed second factor may lock the account.
            options += ["-o", "ControlMaster=no", "-o", "ProxyCommand=false"]
        else:
            options += ["-o", "ControlMaster=auto", "-o", f"ControlPersist={self.login.keep_s}"]
        return [self._program, *options, "--", self.login.host, remote]

    def _ssh(
        self, argv: list[str], fed: bytes, *, timeout_s: float, most_bytes: int = MOST_BYTES
    ) -> subprocess.CompletedProcess[bytes]:
        _own_folder(os.path.dirname(self.login.control_path))
        left = left_s()
        if left is not None:
            timeout_s = min(timeout_s, left)
            if self.login in _SLOW and _SLOW[self.login] > time.monotonic():
                raise self._too_slow()
        try:
            done = call(argv, fed=fed, timeout_s=timeout_s, most_bytes=most_bytes)
        except TooMuch as error:
            raise AdapterError(f"A command on {self.login.host} {error}.", transient=True) from error
        except subprocess.TimeoutExpired as error:
            if left is not None:
                _SLOW[self.login] = time.monotonic() + SLOW_S
                raise self._too_slow() from error
            raise AdapterError(f"{self.login.host} did not answer within {timeout_s:g} s.", transient=True) from error
        except OSError as error:
            raise AdapterError(f"{argv[0]} can't be run: {error.strerror}.", transient=False) from error
        _SLOW.pop(self.login, None)
        return done

    def _too_slow(self) -> AdapterError:
        return AdapterError(
            f"{self.login.host} did not answer in time, and a page waits for it no longer. It is asked again in at "
            f"most {SLOW_S:g} s: try then. If it stays so, see whether ssh {self.login.host} answers on the server, "
            "and what the target's page says. Jobs that run there go on.",
            transient=True,
        )

    def _understand(self, done: subprocess.CompletedProcess[bytes], nonce: str) -> _Said:
        stderr = printed(done.stderr)
        ended = re.search(rf"\n?{nonce} (\d+|cd)\s*\Z", stderr)
        mark = f"{nonce}\n".encode()
        if ended is None or mark not in done.stdout:
            raise self._transport_error(stderr.replace(nonce, "").strip(), done.returncode)
        # Before the marks come the notices of login shells, and ssh's own when a session more was refused.
        own = stderr[: ended.start()].partition(f"{nonce}\n")[2]
        return _Said(ended[1], done.stdout.partition(mark)[2], own)

    def _transport_error(self, said: str, returncode: int) -> AdapterError:
        host = self.login.host
        if self.login.by_person and not self.is_open():
            return SignInNeeded(
                f"{host} needs a sign-in: nobody has opened the connection, or it has ended.",
                self.login.sign_in_command(),
            )
        last = next((line for line in reversed(said.splitlines()) if line.strip()), f"exit code {returncode}")
        if "Host key verification failed" in said:
            return AdapterError(
                f"{host} is not a known host, or its key has changed: check the key and write it into known_hosts.",
                transient=False,
            )
        return AdapterError(f"The connection to {host} failed: {last.strip()[:300]}.", transient=True)


def _own_folder(path: str) -> None:
    """Make the folder of the sockets; refused where others could put theirs there, or where its path is too long."""
    if len(os.fsencode(path)) > LONGEST_FOLDER_BYTES:
        raise AdapterError(
            f"{path} is too long a path for the sockets of connections (at most {LONGEST_FOLDER_BYTES} bytes): set "
            "CONDUCTOR_SSH_CONTROL to a shorter one.",
            transient=False,
        )
    with in_words(path):
        os.makedirs(path, mode=0o700, exist_ok=True)
        found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise AdapterError(
            f"{path} must be a folder that belongs to the user of Conductor alone (chmod 700): it holds the sockets of "
            "connections.",
            transient=False,
        )


def _explain(stderr: str, path: str) -> AdapterError:
    """What a remote command complained of, in the words that local files' errors have."""
    for said, words in _ERRORS.items():
        if said in stderr:
            return AdapterError(f"{path} {words}.", transient=said in _PASSING)
    last = (stderr.strip().splitlines() or ["no word"])[-1]
    return AdapterError(f"{path} failed: {last[:300]}.", transient=any(each in stderr for each in _PASSING))


def _for_anybody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """All that a mode can allow: what is taken away from it is up to the umask there."""
    member.mode = 0o777 if member.isdir() or member.mode & 0o100 else 0o666
    return member


def _pack(source: str) -> tuple[bytes, bytes]:
    """(a tar of everything below `source`, its digests as sha256sum reads them). Links are followed."""
    packed = io.BytesIO()
    digests = []
    try:
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
            for path in sorted(Path(source).rglob("*")):
                name = str(path.relative_to(source))
                archive.add(path, arcname=name, recursive=False, filter=_for_anybody)
                if path.is_file():
                    digests.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n")
                if packed.tell() > COPY_BYTES:
                    raise BadInput(f"{source} is larger than {COPY_BYTES // 1024**2} MiB: too much to be copied over.")
    except OSError as error:
        raise AdapterError(f"{error.filename or source} can't be copied: {error.strerror}.", transient=False) from error
    return packed.getvalue(), "".join(digests).encode()
