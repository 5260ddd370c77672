"""What can happen to a connection: each on a real OpenSSH server."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.ssh import Login, SignInNeeded, SshShell
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


def masters(server: SshServer) -> list[int]:
    done = subprocess.run(["pgrep", "-f", f"{server.folder}/control"], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def test_calls_share_one_connection(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    assert echo(shell) == "hello"
    began = time.monotonic()
    assert [echo(shell, str(number)) for number in range(5)] == ["0", "1", "2", "3", "4"]
    assert time.monotonic() - began < 2.5
    assert shell.is_open()
    shell.close()
    assert not shell.is_open()


def test_a_killed_master_is_replaced(server: SshServer, login: Login) -> None:
    shell = SshShell(login)
    echo(shell)
    for pid in masters(server):
        os.kill(pid, signal.SIGKILL)  # leaves its socket behind
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
    assert time.monotonic() - began < 30


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
    shell.close()
    with pytest.raises(SignInNeeded):
        echo(shell)


@pytest.mark.parametrize("host", ["-oProxyCommand=touch x", "a b", "", "a;b"])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(BadInput, match="can't be the name of a host"):
        Login(host)
