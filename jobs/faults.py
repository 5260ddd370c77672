"""Points at which tests make a process die or stall. Does nothing unless CONDUCTOR_FAULT is set.

`CONDUCTOR_FAULT=name:kill` kills this process at the point `name`, `name:stop` stops it (SIGSTOP);
`name:kill:3` does so at the third passage.
"""

import os
import signal
from collections import Counter

_FAULT = os.environ.get("CONDUCTOR_FAULT", "")
_passages: Counter[str] = Counter()
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def point(name: str) -> None:
    """A boundary at which a process may be lost; tests choose one by name."""
    if not _FAULT:
        return
    wanted, action, count = (_FAULT.split(":") + ["1"])[:3]
    if name != wanted:
        return
    _passages[name] += 1
    if _passages[name] == int(count):
        os.kill(os.getpid(), _SIGNALS[action])
