"""Tests outputs that a manifest has in prose, as the overlay says: by a file's text, or what it must be newer than."""

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence

from jobs.shells import FileFact, Shell
from record.errors import AdapterError
from runs.pipeline.outputs import SERIES, expand
from runs.pipeline.spec import CheckSpec

MAX_BYTES = 8 * 1024 * 1024
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}


def checked(
    shell: Shell, work_dir: str, checks: Sequence[CheckSpec], values: Mapping[str, str], series: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """(series or empty, the output in prose, what is wrong in words) of every check. Reads only."""
    for check in checks:
        for name in series if SERIES in check.file else [""]:
            yield name, check.of, _faults(shell, work_dir, check, values, name)


def decoded(data: bytes) -> str:
    """Text by its byte order mark, else UTF-8; what can't be decoded shows as the replacement character."""
    encoding = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors="replace")


def _faults(shell: Shell, work_dir: str, check: CheckSpec, values: Mapping[str, str], series: str) -> list[str]:
    pattern = expand(check.file, values, series=series)
    if pattern is None:
        return [f"{check.file} can't be looked for: a value is not set"]
    facts = shell.glob(work_dir, [pattern])[pattern]
    if not facts:
        return [f"{pattern} is missing"]
    if check.newer_than:
        return _older(shell, work_dir, check, values, series, facts)
    return [text for fact in facts if (text := _without(shell, work_dir, check, fact))]


def _older(
    shell: Shell, work_dir: str, check: CheckSpec, values: Mapping[str, str], series: str, facts: list[FileFact]
) -> list[str]:
    before = expand(check.newer_than, values, series=series)
    earlier = shell.glob(work_dir, [before])[before] if before else []
    faults = []
    for fact in facts:
        later = next((each for each in earlier if each.modified_at > fact.modified_at), None)
        if later is not None:
            names = [each.path.removeprefix(f"{work_dir}/") for each in (fact, later)]
            faults.append(f"{names[0]} is older than {names[1]}, so that {check.of!r} is not done")
    return faults


def _without(shell: Shell, work_dir: str, check: CheckSpec, fact: FileFact) -> str:
    name = fact.path.removeprefix(f"{work_dir}/")
    try:
        text = decoded(shell.read(fact.path, limit=MAX_BYTES))
    except AdapterError as error:
        if error.transient:
            raise
        return f"{name} can't be read ({error.message})"
    return "" if re.search(check.matches, text) else f"{name} has nothing in it of {check.of!r}"
