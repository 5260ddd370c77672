"""Which phase waits for which, and the proof that none waits for itself."""

import re
from collections.abc import Mapping, Sequence

_PART = re.compile(r"^(.*[0-9A-Z])([a-z])$")


def default_order(scripts: Mapping[str, Sequence[str]]) -> list[str]:
    """The file's order, each phase once.

    Where a phase (`3`) is written once as a whole and once in parts (`3a`, `3b`) that run all of its scripts, the
    parts are what is run.
    """
    parts: dict[str, set[str]] = {}
    for key in scripts:
        if (match := _PART.match(key)) and match.group(1) in scripts:
            parts.setdefault(match.group(1), set()).update(scripts[key])
    wholes = {key for key, covered in parts.items() if set(scripts[key]) <= covered}
    return [key for key in scripts if key not in wholes]


def default_needs(order: Sequence[str]) -> dict[str, list[str]]:
    """Each phase needs the one before it.

    Of two phases for each species that is the one in the same lane; a shared phase waits for all lanes.
    """
    return {key: [order[i - 1]] if i else [] for i, key in enumerate(order)}


def find_cycle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """One cycle as keys in order, its first key again at the end; an empty list where there is none."""
    done: set[str] = set()
    for start in needs:
        if cycle := _walk(start, needs, done):
            return cycle
    return []


def _walk(start: str, needs: Mapping[str, Sequence[str]], done: set[str]) -> list[str]:
    path: list[str] = []
    stack: list[tuple[str, int]] = [(start, 0)]
    while stack:
        key, child = stack.pop()
        if child == 0:
            if key in done:
                continue
            if key in path:
                return [*path[path.index(key) :], key]
            path.append(key)
        below = needs.get(key, [])
        if child < len(below):
            stack.append((key, child + 1))
            stack.append((below[child], 0))
        else:
            path.remove(key)
            done.add(key)
    return []
