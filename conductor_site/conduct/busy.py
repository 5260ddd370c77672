"""Which workers of the task cluster are at work: one small file each, made before a task and removed after it.

The watchdog asks it before it calls a cluster hung: a busy one is never killed.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from jobs import processes

SLACK_S = 30
CLUSTER_VARIABLE = "CONDUCTOR_CLUSTER"  # which cluster a process belongs to; in the environment of all of them


def folder() -> Path:
    """Where the files lie."""
    return Path(settings.DATA_DIR) / "busy"


def connect() -> None:
    """Have this process and its workers say when they work; called in the cluster's main process."""
    from django_q.signals import post_execute_in_worker, pre_execute

    pre_execute.connect(_begin, dispatch_uid="conductor.busy.begin")
    post_execute_in_worker.connect(_end, dispatch_uid="conductor.busy.end")


def busy_workers() -> list[str]:
    """Identities of living workers that are within the time that their task may take, and a little."""
    return [path.name for path in _files() if processes.is_alive(path.name) and _within_time(path)]


def forget() -> None:
    """Remove what dead workers left."""
    for path in _files():
        if not processes.is_alive(path.name):
            path.unlink(missing_ok=True)


def _files() -> list[Path]:
    return list(folder().iterdir()) if folder().is_dir() else []


def _begin(task: dict[str, Any], **_: Any) -> None:
    timeout_s = float(task.get("timeout") or str(settings.Q_CLUSTER["timeout"]))
    with suppress(OSError):  # a full disk must not keep the task from running
        folder().mkdir(parents=True, exist_ok=True)
        note = {"until_s": processes.now_s() + timeout_s + SLACK_S, "task": task.get("name", "")}
        (folder() / processes.own_identity()).write_text(json.dumps(note))


def _end(**_: Any) -> None:
    with suppress(OSError):
        (folder() / processes.own_identity()).unlink()


def _within_time(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text())["until_s"] > processes.now_s())
    except FileNotFoundError:
        return False
    except (ValueError, OSError):
        return True  # half written just now
