"""The rooms import to the left only: record <- jobs <- gates <- runs <- conductor_site. The renderers stand alone."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ["record", "jobs", "gates", "runs", "conductor_site"]
# `runs/qc` runs on a target, where there may be no Django.
WEB = {"django", "rest_framework", "knox", "django_q", "django_filters", "django_htmx", "drf_spectacular"}


def imports_of(source: str, module: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported in `source`, which is the text of `module`; inside functions too."""
    package = module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            source_module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{source_module}.{alias.name}") for alias in node.names)


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def violations(folder: str, forbidden: set[str]) -> list[str]:
    """file:line of every import below `folder` of anything in a forbidden package."""
    found = []
    for path in sources(folder):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for line, name in imports_of(path.read_text(), module):
            if any(name == each or name.startswith(f"{each}.") for each in forbidden):
                found.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_to_its_left(room: str) -> None:
    assert sources(room), f"{room} has no code: is it still called that?"
    assert violations(room, set(ROOMS[ROOMS.index(room) + 1 :])) == []


def test_the_renderers_import_neither_django_nor_a_room() -> None:
    rest_of_runs = {f"runs.{path.stem}" for path in (ROOT / "runs").iterdir()} - {"runs.qc"}
    assert violations("runs/qc", (WEB | set(ROOMS) | rest_of_runs) - {"runs"}) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import gates.models", "gates.models"),
        ("import os, gates", "gates"),
        ("from gates import services", "gates.services"),
        ("from gates.services import answer_gate as a", "gates.services.answer_gate"),
        ("def f():\n    if True:\n        from gates.services import answer_gate", "gates.services.answer_gate"),
        ("from . import states", "jobs.states"),
        ("from .states import JOB", "jobs.states.JOB"),
        ("from ..gates import models", "gates.models"),
    ],
)
def test_every_way_of_importing_is_seen(source: str, name: str) -> None:
    assert name in {found for _, found in imports_of(source, "jobs.services")}
