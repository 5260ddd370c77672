"""Which phase waits for which, and the proof that none waits for itself."""

import re
from collections.abc import Iterable, Mapping, Sequence

_PART = re.compile(r"^(.*[0-9A-Z])([a-z])$")


def find_groups(keys: Iterable[str]) -> dict[str, list[str]]:
    """Key of each phase that is written in parts too (`3`: `3a`, `3b`) -> its parts. `3.5` is a phase of its own."""
    keys = list(keys)
    groups: dict[str, list[str]] = {}
    for key in keys:
        if (match := _PART.match(key)) and match.group(1) in keys:
            groups.setdefault(match.group(1), []).append(key)
    return groups


def group_of(key: str) -> str:
    """What a phase would be a part of, by its name; empty where it is named as a whole."""
    match = _PART.match(key)
    return match.group(1) if match else ""


def default_order(keys: Sequence[str], added: Mapping[str, str] | None = None) -> list[str]:
    """The file's order, each phase once: where one (`3`) is written in parts too, these are what is run.

    `added` has phases that the file lacks -> the one that they come after. Without one they stand where the whole
    stands that they are parts of, else at the end. Several after the same one keep their order.
    """
    added = added or {}
    groups = find_groups([*keys, *added])
    order = list(keys)
    behind: dict[str, str] = {}
    for key, after in added.items():
        if after in order:
            last = behind.get(after) or (groups[after][-1] if after in groups else after)
            order.insert(order.index(last if last in order else after) + 1, key)
            behind[after] = key
        elif (whole := group_of(key)) in order:
            order.insert(order.index(whole), key)
        else:
            order.append(key)
    return [key for key in order if key not in groups]


def default_needs(order: Sequence[str]) -> dict[str, list[str]]:
    """Each phase needs the one before it.

    Of two phases for each species that is the one in the same lane; a shared phase waits for all lanes.
    """
    return {key: [order[i - 1]] if i else [] for i, key in enumerate(order)}


def with_copies(
    order: Sequence[str], needs: Mapping[str, Sequence[str]], copies: Mapping[str, Sequence[str]]
) -> tuple[list[str], dict[str, list[str]]]:
    """Order and needs with the copies of a phase in its place: each needs what it needs, and all are needed for it."""
    placed = [each for key in order for each in copies.get(key, [key])]
    needed = {key: [each for other in needs[key] for each in copies.get(other, [other])] for key in order}
    return placed, {each: needed[key] for key in order for each in copies.get(key, [key])}


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
