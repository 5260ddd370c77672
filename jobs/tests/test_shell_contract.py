"""What every shell of a target does: the same on this machine and over a real SSH."""

import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from jobs.ownership import Ownership
from jobs.shells import LocalShell, Shell
from jobs.ssh import Login, SshShell
from jobs.tests.cluster.sshd import SshServer, second_group
from record.errors import AdapterError, BadInput

ENV = {"PATH": "/usr/bin:/bin"}


@dataclass
class Place:
    shell: Shell
    folder: Path


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        yield Place(LocalShell(), tmp_path)
        return
    server: SshServer = request.getfixturevalue("ssh_server")
    folder = server.home / tmp_path.name
    folder.mkdir()
    owner = pwd.getpwnam(server.user)
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    yield Place(SshShell(login_of(server)), folder)


def login_of(server: SshServer, **given: object) -> Login:
    known = {
        "config_file": str(server.config), "known_hosts": str(server.known_hosts),
        "control_folder": str(server.folder / "control"), "keep_s": 20,
    }  # fmt: skip
    return Login("cluster", **(known | given))  # type: ignore[arg-type]


def kept(path: Path) -> tuple[str, str]:
    """(mode, group) of a file or folder."""
    return f"{stat.S_IMODE(path.stat().st_mode):o}", path.group()


@pytest.mark.parametrize(("umask", "file", "folder"), [("027", "640", "2750"), ("2", "664", "2775")])
def test_what_is_made_has_its_umask_and_group(place: Place, tmp_path: Path, umask: str, file: str, folder: str) -> None:
    group = second_group(pwd.getpwuid(place.folder.stat().st_uid).pw_name)
    ownership = Ownership(umask.zfill(3), group)
    shell = place.shell
    if isinstance(shell, SshShell):
        shell = SshShell(replace(shell.login, ownership=ownership))
    else:
        shell = LocalShell(ownership)
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True, mode=0o700)
    (source / "below" / "script.sh").write_text("true")
    (source / "below" / "script.sh").chmod(0o755)

    shell.write(f"{place.folder}/one/two/file", b"text")
    shell.make_folder(f"{place.folder}/made/deep")
    shell.copy_tree(str(source), f"{place.folder}/tree")
    shell.run(["touch", f"{place.folder}/made/deep/touched"], env=ENV, cwd="/", timeout_s=10)

    for name in ("one", "one/two", "made", "made/deep", "tree", "tree/below"):
        assert kept(place.folder / name) == (folder, group), name
    for name in ("one/two/file", "made/deep/touched"):
        assert kept(place.folder / name) == (file, group), name
    assert kept(place.folder / "tree/below/script.sh") == (f"{0o777 & ~int(umask, 8):o}", group)
    assert place.folder.group() != group  # what was there stays as it was


def test_a_group_that_can_not_be_given_is_told(place: Place) -> None:
    ownership = Ownership(group="no-such-group")
    shell: Shell = LocalShell(ownership)
    if isinstance(place.shell, SshShell):
        shell = SshShell(replace(place.shell.login, ownership=ownership))
    with pytest.raises(AdapterError, match="no-such-group"):
        shell.make_folder(f"{place.folder}/made")


@pytest.mark.parametrize("data", [b"", b"text\n", bytes(range(256)) * 5000], ids=["empty", "text", "binary"])
def test_what_is_written_is_read(place: Place, data: bytes) -> None:
    path = f"{place.folder}/a b/it's $x.bin"
    place.shell.write(path, data)
    assert place.shell.read(path) == data
    assert place.shell.size(path) == len(data)
    assert Path(path).read_bytes() == data
    assert os.listdir(place.folder / "a b") == ["it's $x.bin"]


def test_pieces_of_files(place: Place) -> None:
    path = f"{place.folder}/digits"
    place.shell.write(path, b"0123456789" * 10_000)
    assert place.shell.read(path, offset=3, limit=4) == b"3456"
    assert place.shell.read(path, offset=99_998) == b"89"
    assert place.shell.read(path, offset=200_000, limit=5) == b""
    assert place.shell.read(path, limit=0) == b""


def test_what_is_not_there_is_told_in_words(place: Place) -> None:
    for ask in (place.shell.read, place.shell.size):
        with pytest.raises(AdapterError, match=r"/gone is not there\.$") as caught:
            ask(f"{place.folder}/gone")  # type: ignore[operator]
        assert not caught.value.transient
    place.shell.write(f"{place.folder}/file", b"")
    with pytest.raises(AdapterError):
        place.shell.make_folder(f"{place.folder}/file/below")


def test_globs(place: Place) -> None:
    for name in ("b/TS_2.mrc", "b/TS_10.mrc", "b/c/deep.star", "b/.hidden.mrc", "b/a [x].mrc"):
        place.shell.write(f"{place.folder}/{name}", b"12345")
    found = place.shell.glob(str(place.folder), ["b/TS_*.mrc", "**/*.star", "b/TS_2.mrc", "nothing*", "b/no.mrc", "*"])
    names = {pattern: [fact.path[len(str(place.folder)) + 1 :] for fact in facts] for pattern, facts in found.items()}
    assert names == {
        "b/TS_*.mrc": ["b/TS_10.mrc", "b/TS_2.mrc"], "**/*.star": ["b/c/deep.star"], "b/TS_2.mrc": ["b/TS_2.mrc"],
        "nothing*": [], "b/no.mrc": [], "*": [],
    }  # fmt: skip
    fact = found["b/TS_2.mrc"][0]
    stat = os.stat(fact.path)
    assert (fact.size_bytes, abs(fact.modified_at.timestamp() - stat.st_mtime) < 1e-3) == (5, True)
    assert place.shell.glob(f"{place.folder}/none", ["*"]) == {"*": []}
    for pattern in ("/etc/*", "../*"):
        with pytest.raises(BadInput):
            place.shell.glob(str(place.folder), [pattern])


def test_a_pipe_in_a_files_place_is_not_waited_for(place: Place) -> None:
    os.mkfifo(place.folder / "log")
    os.chmod(place.folder / "log", 0o644)
    with pytest.raises(AdapterError, match="log failed: it is no ordinary file"):
        place.shell.read(f"{place.folder}/log", limit=100)


def test_commands_print_no_control_characters(place: Place) -> None:
    script = r"printf 'a\0b\033[2Jc\x1d\nd'; printf 'a\0b\033[2Jc\x1d\nd' >&2"
    done = place.shell.run(["/bin/bash", "-c", script], env=ENV, cwd="/", timeout_s=10)
    assert (done.stdout, done.stderr) == ("a\u2400bc\u241d\nd", "a\u2400bc\u241d\nd")


def test_a_command_that_prints_without_end(place: Place) -> None:
    with pytest.raises(AdapterError, match="printed more than 64 MiB") as caught:
        place.shell.run(["yes"], env=ENV, cwd="/", timeout_s=60)
    assert caught.value.transient


def test_trees(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source tree"
    (source / "deep").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "deep" / "data").write_bytes(b"\0\1")
    (source / "link").symlink_to("deep/data")
    for _ in range(2):
        place.shell.copy_tree(str(source), f"{place.folder}/copy")
    assert Path(f"{place.folder}/copy/deep/data").read_bytes() == b"\0\1"
    assert Path(f"{place.folder}/copy/link").read_bytes() == b"\0\1"
    assert os.access(f"{place.folder}/copy/run.sh", os.X_OK)


def test_commands(place: Place) -> None:
    words = ["a b", "it's", "$HOME", "", "*", "line\nbreak", "é", "!x"]
    done = place.shell.run(["printf", "[%s]", *words], env=ENV, cwd=str(place.folder), timeout_s=20)
    assert done.stdout == "".join(f"[{word}]" for word in words)
    done = place.shell.run(["env"], env=ENV | {"A": "b\nc"}, cwd="/", timeout_s=20)
    lines = set(done.stdout.splitlines()) - {"PWD=/", "OLDPWD=/", "SHLVL=0", "SHLVL=1", "_=/usr/bin/env"}
    assert lines >= {"PATH=/usr/bin:/bin", "A=b", "c"}
    assert not any(line.startswith(("HOME=", "USER=", "SSH_", "CONDUCTOR")) for line in lines)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", -15), ("kill -9 $$", -9)]
)
def test_exit_codes(place: Place, script: str, code: int) -> None:
    done = place.shell.run(["bash", "-c", f"echo out; echo err >&2; {script}"], env=ENV, cwd="/", timeout_s=20)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "out\n", "err")


def test_a_command_that_takes_too_long(place: Place) -> None:
    with pytest.raises(AdapterError, match=r"did not end within 0\.3 s") as caught:
        place.shell.run(["sleep", "30"], env=ENV, cwd="/", timeout_s=0.3)
    assert caught.value.transient


def test_commands_that_can_not_be_run(place: Place) -> None:
    with pytest.raises(AdapterError, match="nothing-of-that-name is not there") as caught:
        place.shell.run(["nothing-of-that-name"], env=ENV, cwd="/", timeout_s=20)
    assert not caught.value.transient
    with pytest.raises(AdapterError, match="/gone is not there"):
        place.shell.run(["true"], env=ENV, cwd=f"{place.folder}/gone", timeout_s=20)


def test_links_are_followed(place: Place) -> None:
    place.shell.make_folder(f"{place.folder}/real")
    Path(f"{place.folder}/link").symlink_to("real")
    base = os.path.realpath(place.folder)
    asked = [f"{place.folder}/link/x", f"{place.folder}//none/../y"]
    assert place.shell.real_paths(asked) == [f"{base}/real/x", f"{base}/y"]
    assert place.shell.real_paths([]) == []


def test_variables_of_that_place(place: Place) -> None:
    assert set(place.shell.environment(["PATH", "NOT_THERE_AT_ALL"])) == {"PATH"}
