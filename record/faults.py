"""Points at which tests make a process die or stall. Does nothing unless one of two variables is set.

`CONDUCTOR_FAULT=name:kill` kills this process at the point `name`, `name:stop` stops it (SIGSTOP);
`name:kill:3` does so at the third passage.

`CONDUCTOR_FAULTS_ARMED=folder` lets whoever tests arm points while processes run: a file `name` in that folder, holding
`kill` or `stop`, fells the first process that comes by, whichever it is. It moves the file to `name.fell.<pid>` and
adds what it was at (a job's token, a gate's id), then falls.
"""

import os
import signal
from collections import Counter
from contextlib import suppress

_FAULT = os.environ.get("CONDUCTOR_FAULT", "")
_ARMED = os.environ.get("CONDUCTOR_FAULTS_ARMED", "")
_passages: Counter[str] = Counter()
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def point(name: str, at: object = "") -> None:
    """A boundary at which a process may be lost, with what it is at; tests choose one by name."""
    if _ARMED:
        with suppress(FileNotFoundError):  # not armed, or another was quicker
            _fall(name, str(at))
    if not _FAULT:
        return
    wanted, action, count = (_FAULT.split(":") + ["1"])[:3]
    if name != wanted:
        return
    _passages[name] += 1
    if _passages[name] == int(count):
        os.kill(os.getpid(), _SIGNALS[action])


def _fall(name: str, at: str) -> None:
    fell = f"{_ARMED}/{name}.fell.{os.getpid()}"
    os.rename(f"{_ARMED}/{name}", fell)
    with open(fell, "r+") as note:
        action = note.read().strip()
        note.write(f" at {at}\n")
    os.kill(os.getpid(), _SIGNALS[action])
