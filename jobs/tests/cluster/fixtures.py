"""Fixtures of real services: one of each a test session (and worker), started when first asked for."""

import os
from collections.abc import Iterator

import pytest

from jobs.tests.cluster.slurm import SlurmCluster
from jobs.tests.cluster.sshd import SshServer, ordinary_user


def _cluster(*, accounting: bool) -> Iterator[SlurmCluster]:
    cluster = SlurmCluster(accounting=accounting, users=(ordinary_user(),))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def plain_slurm() -> Iterator[SlurmCluster]:
    """A SLURM that keeps no accounts: `sacct` knows nothing."""
    yield from _cluster(accounting=False)


@pytest.fixture(scope="session")
def accounting_slurm() -> Iterator[SlurmCluster]:
    """A SLURM with slurmdbd on a MariaDB, which enforces associations."""
    yield from _cluster(accounting=True)


# What differs between them are SLURM's answers, which no database sees: on PostgreSQL one is enough.
KINDS = ["plain"] if "DATABASE_URL" in os.environ else ["plain", "accounting"]


@pytest.fixture(scope="session", params=KINDS)
def slurm(request: pytest.FixtureRequest) -> SlurmCluster:
    """Each, one after the other."""
    cluster: SlurmCluster = request.getfixturevalue(f"{request.param}_slurm")
    return cluster


@pytest.fixture(scope="session")
def ssh_server() -> Iterator[SshServer]:
    """An SSH server without a cluster behind it."""
    server = SshServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()
