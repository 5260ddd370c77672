"""Two species that would export into one folder would mix their particles."""

import posixpath
from collections.abc import Mapping


def shared_folders(values: Mapping[str, Mapping[str, str]], name: str = "DATADIR") -> dict[str, list[str]]:
    """folder -> the species whose `name` leads there, where there are several. `values` are by species."""
    by_folder: dict[str, list[str]] = {}
    for label, own in values.items():
        if folder := own.get(name, "").strip():
            by_folder.setdefault(_full(own.get("WORK_DIR", ""), folder), []).append(label)
    return {folder: sorted(labels) for folder, labels in by_folder.items() if len(labels) > 1}


def _full(work_dir: str, folder: str) -> str:
    return posixpath.normpath(posixpath.join(work_dir or "/", folder))
