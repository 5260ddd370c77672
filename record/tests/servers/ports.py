"""Ports of loopback for the servers that tests start."""

import random
import socket
from contextlib import ExitStack

# Below those that the system gives to outgoing connections: one of these could take a port before its server does.
LOWEST, HIGHEST = 12_000, 32_000


def free_port() -> int:
    """A port on which nobody listens just now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many ports on which nobody listens just now; others that ask at the same time hardly get the same."""
    with ExitStack() as held:
        return [_hold(held) for _ in range(count)]


def _hold(held: ExitStack) -> int:
    for _ in range(1000):
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port := random.randrange(LOWEST, HIGHEST)))  # noqa: S311 - no secret
        except OSError:
            probe.close()
            continue
        held.enter_context(probe)
        return port
    raise OSError(f"no free port between {LOWEST} and {HIGHEST}")
