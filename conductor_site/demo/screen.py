"""What the terminal shows while the demo runs: a line a phase, and what waits for a person."""

import shutil
import sys
import unicodedata
from typing import TextIO

from gates.models import Gate
from runs.models import Phase, Run

SIGNS = {
    "pending": "○",
    "ready": "○",
    "running": "◐",
    "verifying": "◐",
    "checkpoint": "◆",
    "done": "●",
    "failed": "✕",
    "skipped": "–",
}
BAR_WIDTH = 10


def bar(done: int, total: int) -> str:
    """`done` of `total` as a bar of BAR_WIDTH cells; blank where the total is not known."""
    if not total:
        return " " * BAR_WIDTH
    filled = BAR_WIDTH * done // total
    return "█" * filled + "·" * (BAR_WIDTH - filled)


def phase_lines(run: Run) -> list[str]:
    """One line a phase: sign, name, bar, counts, state."""
    phases = Phase.objects.filter(run=run).select_related("species").order_by("position", "id")
    lines = []
    for phase in phases:
        count = f"{phase.items_done}/{phase.items_total}" if phase.items_total else ""
        lane = f" · {phase.species.label}" if phase.species else ""
        name = f"{phase.key} {phase.title}{lane}"
        line = f" {SIGNS[phase.state]} {name:<36.36} {bar(phase.items_done, phase.items_total)} {count:>6}  "
        lines.append(line + phase.get_state_display() + (f": {phase.reason}" if phase.reason else ""))
    return lines


def gate_lines(run: Run, address: str) -> list[str]:
    """One line a gate that waits for a person."""
    waiting = Gate.objects.waiting().filter(root_uuid=run.uuid)
    return [f" ◆ {gate.title} ({gate.context}): {address}/gates/{gate.pk}/" for gate in waiting]


def printable(text: str) -> str:
    """`text` without characters that would move the cursor or hide what follows."""
    return "".join(c for c in text if c == " " or unicodedata.category(c)[0] not in "CZ")


class Screen:
    """Draws lines in place on a terminal; elsewhere prints what is new."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self.out = out
        self.drawn: list[str] = []

    def show(self, lines: list[str]) -> None:
        lines = [printable(line) for line in lines]
        if lines == self.drawn:
            return
        if self.out.isatty():
            self._redraw(lines)
        else:
            for line in lines:
                if line.strip() and line not in self.drawn:
                    print(line, file=self.out, flush=True)
        self.drawn = lines

    def _redraw(self, lines: list[str]) -> None:
        width = shutil.get_terminal_size().columns
        back = f"\x1b[{len(self.drawn)}F" if self.drawn else ""
        self.out.write(back + "\x1b[J" + "".join(f"{line[: width - 1]}\n" for line in lines))
        self.out.flush()
