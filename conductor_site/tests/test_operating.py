"""docs/operating.md is true: every line of the log stands there, every command and figure that it names is there."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import get_commands

from conductor_site.metrics import render_metrics
from conductor_site.tests.stage import ROOT
from conductor_site.tests.test_imports import ROOMS, sources

TEXT = (ROOT / "docs/operating.md").read_text()
HOLE = re.compile(r"%(?:\.\d+)?[sdgf]")


def logged() -> Iterator[tuple[str, str]]:
    """(where, message with … for what is filled in) of every line that the code writes to the log in fixed words."""
    for path in (path for room in ROOMS for path in sources(room) if "tests" not in path.parts):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            to_log = isinstance(node.func.value, ast.Name) and node.func.value.id == "log"
            if to_log and node.args and isinstance(node.args[0], ast.Constant):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", HOLE.sub("…", str(node.args[0].value))


def test_every_line_of_the_log_is_explained() -> None:
    lines = list(logged())
    assert len(lines) > 20
    assert [line for line in lines if f"| `{line[1]}` |" not in TEXT] == []


def test_no_line_is_explained_that_is_never_written() -> None:
    table = TEXT.partition("## What the log says")[2]
    explained = set(re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE))
    composed = {line for line in explained if line.startswith("The task cluster on … took no task")}
    assert explained - composed - {message for _, message in logged()} == set()


@pytest.mark.django_db
def test_every_figure_is_named_and_no_other() -> None:
    told = set(re.findall(r"^# TYPE (conductor_\w+) ", render_metrics().decode(), re.MULTILINE))
    table = TEXT.partition("| figure |")[2].partition("\n\n")[0]
    named: set[str] = set()
    for cell in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE):
        names = re.findall(r"`(\w+)`", cell)
        named |= {name if name.startswith("conductor_") else f"conductor_target{name}" for name in names}
    assert named == told


def test_commands_that_are_named_are_there() -> None:
    cleaning = TEXT.partition("## Keep it clean")[2].partition("**Quotas**")[0]
    called = set(re.findall(r"(?:^|&& |`)conductor ([a-z_]+)", TEXT, re.MULTILINE))
    called |= set(re.findall(r"^\| `(\w+)` \|", cleaning, re.MULTILINE))
    known: dict[str, Any] = get_commands()
    assert {"drain", "resume", "backup", "restore", "clean_jobs", "clearsessions"} <= called
    assert {name for name in called if name not in known} == set()
