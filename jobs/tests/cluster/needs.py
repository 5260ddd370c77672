"""What the services need of the machine: installed where that is possible, else the tests are skipped with its name.

Without pytest, as in an environment that only runs Conductor, what is missing ends the process in words.
"""

import os
import shutil
import subprocess
import sys
from typing import NoReturn

INSTALL_TIMEOUT_S = 900
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def need(programs: dict[str, str]) -> None:
    """See to it that these programs (name -> Debian package) are there; skips the test where they can't be had.

    With CI=true a skip is a failure: there everything must have been tried.
    """
    packages = sorted({package for program, package in programs.items() if not find(program)})
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(packages)
        packages = sorted({package for program, package in programs.items() if not find(program)})
    if packages:
        refuse(f"missing: {', '.join(packages)} (as root: apt-get install {' '.join(packages)})")


def refuse(why: str) -> NoReturn:
    """Skip, or fail where CI=true; outside of tests, SystemExit."""
    if "pytest" not in sys.modules:
        sys.exit(f"A service can't be had: {why}")
    import pytest

    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true, and a service can't be had: {why}", pytrace=False)
    pytest.skip(why)


def find(program: str) -> str | None:
    """The path of a program, of the system's own folders too."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")


def _install(packages: list[str]) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    lock = ["-o", "DPkg::Lock::Timeout=600"]  # several workers of one test run may want the same
    for argv in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *lock, *packages],
    ):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
        if done.returncode:
            refuse(f"{' '.join(argv)} failed: {done.stderr.strip()[-300:]}")
