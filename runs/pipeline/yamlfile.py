"""YAML with the line of everything that was read.

Keys are kept as they are written (`1`, `"3.5"`, `3a` are all text): the phases of a manifest are names, not numbers.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from runs.pipeline.faults import Fault

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 30
Path = tuple[str | int, ...]


@dataclass
class YamlFile:
    """The value of a YAML file, and for each path into it (`("phases", "3a", "scripts", 0)`) its line, from 1."""

    name: str
    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, *path: str | int) -> int:
        """The line of `path`, or of the nearest thing around it that has one."""
        for end in range(len(path), -1, -1):
            if line := self.lines.get(path[:end]):
                return line
        return 0

    def fault(self, message: str, *path: str | int) -> None:
        """Note a fault at the line of `path`."""
        self.faults.append(Fault(self.name, self.line(*path), message))


def read_yaml(name: str, data: bytes) -> YamlFile:
    """Parse `data` with the safe constructor; what is wrong stands in `faults`, and `value` is None then."""
    file = YamlFile(name)
    try:
        node = _compose(data)
    except _Unreadable as problem:
        file.faults.append(Fault(name, problem.line, problem.message))
        return file
    if node is None:
        file.faults.append(Fault(name, 0, "the file is empty"))
        return file
    try:
        file.value = _Reader(file).read(node, (), 0)
    except _Unreadable as problem:
        file.faults.append(Fault(name, problem.line, problem.message))
        file.value = None
    return file


class _Unreadable(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def _compose(data: bytes) -> Node | None:
    if len(data) > MAX_BYTES:
        raise _Unreadable(0, f"the file has {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        return yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise _Unreadable(data[: error.start].count(b"\n") + 1, "not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it can't be read"
        raise _Unreadable(mark.line + 1 if mark else 0, f"not YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise _Unreadable(0, f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _Unreadable(0, "nested too deeply") from None


class _Reader:
    def __init__(self, file: YamlFile) -> None:
        self.file = file
        self.scalars = SafeConstructor()
        self.nodes = 0

    def read(self, node: Node, path: Path, depth: int) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > 100_000:  # aliases of aliases grow without end
            raise _Unreadable(node.start_mark.line + 1, "nested too deeply, or too many aliases")
        self.file.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, SequenceNode):
            return [self.read(child, (*path, i), depth + 1) for i, child in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: MappingNode, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self.file.faults.append(Fault(self.file.name, line, "a key must be a word"))
                continue
            key = key_node.value
            if key in result:
                first = self.file.lines[(*path, key)]
                self.file.faults.append(Fault(self.file.name, line, f"{key!r} stands here twice (first: line {first})"))
                continue
            self.file.lines[(*path, key)] = line
            result[key] = self.read(value_node, (*path, key), depth + 1)
        return result

    def _scalar(self, node: Node) -> Any:
        try:
            value = self.scalars.construct_object(node, deep=True)
        except (ConstructorError, ValueError) as error:
            problem = getattr(error, "problem", None) or str(error)
            raise _Unreadable(node.start_mark.line + 1, f"not usable: {problem}") from None
        # Dates and binary are meant as the text that stands there.
        return value if value is None or isinstance(value, str | int | float | bool) else node.value
