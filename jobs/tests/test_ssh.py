"""What can happen to a connection: each on a real OpenSSH server."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.ssh import Login, SignInNeeded, SshShell
from jobs.tests.cluster.daemons import until
from jobs.tests.cluster.sshd import SshServer
from record.errors import AdapterError, BadInput

pytestmark = pytest.mark.slow
ENV = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def server() -> Iterator[SshServer]:
    server = SshServer(max_sessions=2)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def login(server: SshServer) -> Login:
    return Login(
        "cluster", config_file=str(server.config), known_hosts=str(server.known_hosts),
        control_folder=str(server.folder / "control"), keep_s=20,
    )  # fmt: skip


def echo(shell: SshShell, text: str = "hello", *, seconds: float = 0, timeout_s: float = 20) -> str:
    argv = ["bash", "-c", f"sleep {seconds}; echo {text}"]
    return shell.run(argv, env=ENV, cwd="/", timeout_s=timeout_s).stdout.strip()


def close(shell: SshShell, server: SshServer) -> None:
    """End the shared connection, and wait for its socket to go: ssh says that it asked, not that it was done."""
    shell.close()
    until(lambda: not any((server.folder / "control").iterdir()), within_s=20, what="the socket is removed")


def masters(server: SshServer) -> list[int]:
    done = subprocess.run(["pgrep", "-f", f"{server.folder}/control"], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def logins(server: SshServer) -> int:
    """How many connections the server has let in since it was started."""
    return server.daemon.log.read_text().count("Accepted publickey for")


def test_calls_share_one_connection(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    before = logins(server)
    assert echo(shell) == "hello"
    assert [echo(shell, str(number)) for number in range(5)] == ["0", "1", "2", "3", "4"]
    assert logins(server) - before == 1
    assert shell.is_open()
    close(shell, server)
    assert not shell.is_open()


def test_a_killed_master_is_replaced(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    echo(shell)
    for pid in masters(server):
        os.kill(pid, signal.SIGKILL)  # leaves its socket behind
    until(lambda: not masters(server), within_s=20, what="it is gone, and answers nobody any more")
    assert list((server.folder / "control").iterdir())
    assert echo(shell) == "hello"


def test_a_dropped_session_is_no_result_of_the_command(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    echo(shell)
    drop = threading.Timer(1.0, lambda: [os.kill(pid, signal.SIGKILL) for pid in server.sessions()])
    drop.start()
    with pytest.raises(AdapterError, match="The connection to cluster failed") as caught:
        echo(shell, seconds=5)
    drop.join()
    assert caught.value.transient
    assert echo(shell) == "hello"


def drop_while(server: SshServer, begun: Callable[[], object], act: Callable[[], object]) -> AdapterError | None:
    """Kill the sessions as soon as something has begun; the error that `act` came to, or None where it was quicker."""
    over = threading.Event()

    def drop() -> None:
        while not over.is_set() and not begun():
            time.sleep(0.0005)
        for pid in server.sessions():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=drop)
    thread.start()
    try:
        act()
    except AdapterError as error:
        return error
    finally:
        over.set()
        thread.join()
    return None


def test_a_file_that_is_dropped_on_its_way_there_is_not_there(server: SshServer, login: Login) -> None:
    shell, path = SshShell(login), server.home / "big"
    data = os.urandom(1024) * 64 * 1024  # 64 MiB
    shell.write(str(path), b"before")
    for _ in range(5):
        error = drop_while(server, lambda: list(server.home.glob("big.part*")), lambda: shell.write(str(path), data))
        if error is not None:
            break
        shell.write(str(path), b"before")
    assert error is not None
    assert error.transient
    assert "The connection to cluster failed" in error.message
    assert path.read_bytes() == b"before"
    until(lambda: not list(server.home.glob("big.part*")), within_s=20, what="what had come is taken away")
    shell.write(str(path), data)
    assert path.read_bytes() == data


def test_a_file_that_is_dropped_on_its_way_here_is_no_short_one(server: SshServer, login: Login) -> None:
    shell, path = SshShell(login), server.home / "big"
    data = os.urandom(1024) * 64 * 1024
    path.write_bytes(data)
    reading = ["pgrep", "-f", f"^tail -c [+]1 -- {path}"]
    for _ in range(5):
        error = drop_while(
            server, lambda: subprocess.run(reading, capture_output=True).stdout, lambda: shell.read(str(path))
        )
        if error is not None:
            break
    assert error is not None
    assert error.transient
    assert shell.read(str(path)) == data


def test_a_tree_that_is_dropped_on_its_way_is_copied_again(server: SshServer, login: Login, tmp_path: Path) -> None:
    shell = SshShell(login)
    source = tmp_path / "source"
    source.mkdir()
    for number in range(6):
        (source / f"{number}.bin").write_bytes(os.urandom(1024) * 8 * 1024)
    tree = server.home / "tree"
    for number in range(5):
        to = f"{tree}{number}"
        error = drop_while(server, lambda to=to: Path(to).exists(), lambda to=to: shell.copy_tree(str(source), to))
        if error is not None:
            break
    assert error is not None
    assert error.transient
    shell.copy_tree(str(source), to)
    assert {path.name: path.read_bytes() for path in Path(to).iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir()
    }


def test_exit_255_of_a_command_is_no_failed_connection(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    done = shell.run(["bash", "-c", "echo said; exit 255"], env=ENV, cwd="/", timeout_s=20)
    assert (done.returncode, done.stdout) == (255, "said\n")
    server.daemon.kill()
    close(shell, server)
    with pytest.raises(AdapterError) as caught:  # ssh itself ends with 255 here
        shell.run(["bash", "-c", "exit 0"], env=ENV, cwd="/", timeout_s=20)
    assert caught.value.transient


def test_a_socket_that_nobody_listens_at(server: SshServer, login: Login) -> None:
    """Left by a machine that lost its power: the file is there, and no process."""
    shell = SshShell(login)
    echo(shell)
    (path,) = (server.folder / "control").iterdir()
    close(shell, server)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    assert path.exists()
    assert not shell.is_open()
    assert echo(shell) == "hello"


def test_a_hung_session_is_given_up(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    echo(shell)
    stopped = server.sessions()

    def hang() -> None:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    timer = threading.Timer(1.0, hang)
    timer.start()
    began = time.monotonic()
    try:
        with pytest.raises(AdapterError) as caught:
            echo(shell, seconds=3, timeout_s=60)
        assert echo(shell) == "hello"
    finally:
        timer.join()
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert caught.value.transient
    assert time.monotonic() - began < 60  # else it would have been 85 s: the call's own time and some


def test_more_sessions_than_the_server_allows(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    echo(shell)
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda number=number: answers.append(echo(shell, str(number), seconds=2)))
        for number in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["0", "1", "2", "3", "4"]


def test_a_server_that_is_away(server: SshServer, login: Login) -> None:
    server.daemon.kill()
    with pytest.raises(AdapterError, match="The connection to cluster failed: .*[Cc]onnection refused") as caught:
        echo(SshShell(login))
    assert caught.value.transient


def test_an_unknown_host_is_refused(server: SshServer, login: Login, tmp_path: Path) -> None:
    (tmp_path / "known_hosts").touch()
    with pytest.raises(AdapterError, match="is not a known host") as caught:
        echo(SshShell(replace(login, known_hosts=str(tmp_path / "known_hosts"))))
    assert not caught.value.transient


def test_notices_of_login_shells_do_not_matter(server: SshServer, login: Login) -> None:
    home = Path(f"~{server.user}").expanduser()
    rc = home / ".bashrc"
    before = rc.read_bytes() if rc.exists() else None
    try:
        rc.write_text("echo Welcome to the cluster; echo maintenance on Monday >&2\n")
        assert echo(SshShell(login)) == "hello"
    finally:
        rc.write_bytes(before) if before is not None else rc.unlink()


def test_a_connection_that_a_person_opens(server: SshServer, login: Login) -> None:
    shell = SshShell(replace(login, by_person=True))
    with pytest.raises(SignInNeeded) as caught:
        echo(shell)
    assert caught.value.transient
    assert server.sessions() == []  # nothing was even tried

    subprocess.run(["bash", "-c", caught.value.command], check=True, timeout=20, stdin=subprocess.DEVNULL)

    assert echo(shell) == "hello"
    assert "BatchMode" not in caught.value.command
    close(shell, server)
    with pytest.raises(SignInNeeded):
        echo(shell)


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "a b", "", "a;b"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(BadInput, match="can't be the name of a host"):
        Login(host)
