"""Notices go into a Matrix room, while the worker that sends them and the homeserver are felled."""

import subprocess
import sys
from itertools import product
from typing import Any

from conductor_site.tests.stage import ROOT
from faults.arena import WORDS, Arena
from faults.ground import Ground
from faults.leftout import LeftOut
from faults.limits import PATIENCE_S
from faults.referee import plain
from faults.trials import Fault, Part, Trial
from record.notifiers.matrix import MARK
from record.tests.servers.synapse import Homeserver, is_installed

BOUNDARIES = ["notice_claimed", "notice_sent", "notice_written"]
LEASE_S = 6  # for whoever sends; then another takes over
STALL_S = LEASE_S + 6.0
TOGETHER = 5  # notices owed while the homeserver is killed

# Keeps a bot's sign-in, makes the channel; then, for each line that it reads, something notable happens.
OWE = """
import sys, uuid, django; django.setup()
from record.models import Channel, Delivery, Lab
from record.notices.secrets import keep_secret, variable
from record.services import Subject, record_event
lab = Lab.objects.get()
keep_secret(variable(lab.slug, "matrix", "conductor"), sys.argv[1])
Channel.objects.create(lab=lab, name="room", kind="matrix", address="trials", topics=["conductor-log"])
print("ready", flush=True)
for line in sys.stdin:
    event = record_event(lab_id=lab.pk, kind="run.finish", subject=Subject("run", uuid.uuid4(), "run one"))
    print(Delivery.objects.get(event=event).uuid, flush=True)
"""


def run(ground: Ground, part: Part, *, where: str) -> None:
    """Have notices owed one by one, and fell whoever sends each at a boundary; then the homeserver, with some owed."""
    if not is_installed():
        raise LeftOut("matrix-synapse is not installed (requirements-dev.txt)")
    server = Homeserver()
    try:
        server.start()
        room = server.room("trials")
        with ground.arena(part.name, where) as arena:
            arena.stage.environment |= {"CONDUCTOR_NOTICE_LEASE_S": str(LEASE_S)}
            with _Ower(arena, server.bot("conductor")) as ower:
                arena.conduct("var", options=())
                for boundary, action in ground.choose(list(product(BOUNDARIES, WORDS)), times=3):
                    _fell_sender(arena, ower, boundary, action)
                for _ in range(ground.times(3)):
                    _kill_server(arena, ower, server)
            _settle(arena)
            _judge(arena, server, room)
            arena.judge_chain(part)
    finally:
        server.remove()


class _Ower:
    """A process in which notable things happen on demand."""

    def __init__(self, arena: Arena, bot: str) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", OWE, bot], cwd=ROOT, env=arena.stage.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> "_Ower":
        self._line()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def owe(self) -> str:
        """Have something happen; the uuid of the notice that is owed for it."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return plain(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        if line := self._process.stdout.readline().strip():
            return line
        raise RuntimeError("whoever has things happen has died")


def _fell_sender(arena: Arena, ower: _Ower, boundary: str, action: str) -> None:
    arena.arm(boundary, action)
    ower.owe()
    pid, at = arena.fallen(boundary, within_s=PATIENCE_S)
    arena.befall(Fault(WORDS[action], "sending worker", boundary), [plain(at)])
    if action == "stop":
        arena.limits.rest(STALL_S)
        arena.send([pid], "go on")
    arena.limits.until(lambda: not _owed(arena), what="what was owed is sent", within_s=PATIENCE_S, every_s=0.2)


def _kill_server(arena: Arena, ower: _Ower, server: Homeserver) -> None:
    keys = [ower.owe() for _ in range(TOGETHER)]
    arena.limits.rest(arena.chance.uniform(0, 3))
    still = {plain(row["uuid"]) for row in _owed(arena)}
    server.kill()
    arena.befall(Fault("kill -9", "Matrix homeserver", "notices owed"), [key for key in keys if key in still])
    arena.limits.rest(2)
    server.start()
    arena.limits.until(lambda: not _owed(arena), what="what was owed is sent", within_s=PATIENCE_S, every_s=0.2)


def _owed(arena: Arena) -> list[dict[str, Any]]:
    return arena.stage.rows("select uuid from record_delivery where ended_at is null")


def _settle(arena: Arena) -> None:
    arena.disarm()
    arena.mend()
    arena.limits.rest(1.5)


def _judge(arena: Arena, server: Homeserver, room: str) -> None:
    """Hold what is in the room against the rows."""
    rows = {plain(row["uuid"]): row for row in arena.stage.rows("select * from record_delivery")}
    seen: dict[str, list[str]] = {}
    for message in server.messages(room):
        seen.setdefault(plain(message["content"].get(MARK, "")), []).append(message["event_id"])
    for trial in arena.trials.values():
        _judge_one(trial, rows.get(trial.key), seen.get(trial.key, []))


def _judge_one(trial: Trial, row: dict[str, Any] | None, events: list[str]) -> None:
    state = row["state"] if row else "gone"
    if state != "sent" or not events:
        trial.lost = f"its row is {state}, and it is in the room {len(events)} times"
    if len(events) > 1:
        trial.doubled = f"it is in the room {len(events)} times"
    if row and events and state == "sent" and row["remote_id"] not in events:
        trial.wrong = f"it is said to be event {row['remote_id']}, and is {events[0]}"
