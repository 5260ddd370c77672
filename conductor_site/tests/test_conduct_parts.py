"""The due table, the lease and the quiet of `conduct`, each on its own."""

import os
import selectors
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from conductor_site.conduct import due, lease, quiet
from conductor_site.conduct.cluster import SWEEP_NAME, ensure_sweep
from conductor_site.conduct.due import AFTER_ENDS, AT_ONCE, DUE, OF_THIS_HOST, DueTable
from conductor_site.conduct.lease import TickLease
from conductor_site.conduct.loop import Conduct
from conductor_site.conduct.quiet import Quiet
from conductor_site.tasks import pulse, sweep
from jobs import processes
from jobs.hands import ENDED
from jobs.models import ConductLease, Pulse
from jobs.wake import wake_conduct

CALLS: list[str] = []


def good() -> int:
    CALLS.append("good")
    return 2


def bad() -> int:
    CALLS.append("bad")
    raise RuntimeError("no")


def locked() -> int:
    raise OperationalError("database is locked")


def test_one_function_that_fails_stops_no_other_and_is_not_hammered(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(due, "import_string", {"x.bad": bad, "x.good": good}.__getitem__)
    table = DueTable(["x:bad", "x:good"])
    assert (table.run(), table.run()) == (2, 2)
    assert CALLS == ["bad", "good", "good"]


def test_a_database_that_is_away_is_told_upwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due, "import_string", lambda place: locked)
    with pytest.raises(OperationalError):
        DueTable(["x:locked"]).run()


@pytest.mark.django_db
def test_the_whole_table_runs_on_an_empty_database() -> None:
    assert sweep() == 0
    assert len(DUE) == len(set(DUE))
    assert set(DUE) > AT_ONCE > AFTER_ENDS
    assert set(DUE) > OF_THIS_HOST > AFTER_ENDS


def test_a_wake_up_asks_only_what_can_have_become_due(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(due, "import_string", {"x.bad": bad, "x.good": good}.__getitem__)
    monkeypatch.setattr(due, "AT_ONCE", frozenset({"x:good", "y:not_in_this_table"}))
    assert DueTable(["x:bad", "x:good"]).run_at_once() == 2
    monkeypatch.setattr(due, "AFTER_ENDS", frozenset({"x:good"}))
    assert DueTable(["x:bad", "x:good"]).run_after_ends() == 2
    assert CALLS == ["good", "good"]


class Recorder:
    """Stands for the hands and the due table of a `conduct`: notes what is asked of them, and in which order."""

    def __init__(self, *, away: int = 0, done: int = 0) -> None:
        self.asked: list[str] = []
        self.answers = {"follow": away, "run": done, "run_at_once": done}

    def __getattr__(self, name: str) -> Any:
        def ask(**given: bool) -> int:
            self.asked.append(name if given.get("for_all", True) else f"{name} of this host")
            return self.answers.get(name, 0)

        return ask


def look(recorder: Recorder, *, tick: bool, held: bool = True) -> Conduct:
    conduct: Any = Conduct(cluster=None)
    conduct.hands, conduct.due = recorder, recorder
    conduct._call()
    conduct._look(tick=tick, held=held)
    return conduct


def test_a_slot_that_following_frees_is_filled_in_the_same_tick() -> None:
    recorder = Recorder(away=1)
    look(recorder, tick=True)
    assert recorder.asked == ["know_targets", "follow", "start_due", "run"]


def test_what_was_done_is_started_in_the_same_turn_and_calls_for_no_other() -> None:
    recorder = Recorder(done=1)
    conduct = look(recorder, tick=False)
    assert recorder.asked == ["start_due", "run_at_once", "start_due"]
    assert not conduct._called


@pytest.mark.parametrize(("tick", "asked"), [(True, "run of this host"), (False, "run_at_once of this host")])
def test_without_the_lease_it_does_what_no_other_host_can(tick: bool, asked: str) -> None:
    recorder = Recorder()
    look(recorder, tick=tick, held=False)
    assert recorder.asked[-1] == asked


def test_what_belongs_to_a_host_is_done_there(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(due, "import_string", {"x.bad": bad, "x.good": good}.__getitem__)
    monkeypatch.setattr(due, "OF_THIS_HOST", frozenset({"x:good"}))
    assert DueTable(["x:bad", "x:good"]).run(for_all=False) == 2
    assert CALLS == ["good"]


def test_a_wake_up_within_conduct_does_not_go_through_the_socket(settings: Any, tmp_path: Path) -> None:
    settings.CONDUCT_SOCKET = tmp_path / "nobody-listens"
    conduct = Conduct(cluster=None)
    with conduct._own_calls():
        wake_conduct()
    assert conduct._called
    wake_conduct()  # and after it goes its usual way


@pytest.mark.parametrize(("late", "asked"), [(False, "run_after_ends"), (True, "run_at_once")])
def test_who_calls_while_an_end_is_seen_to_is_heard(late: bool, asked: str) -> None:
    recorder = Recorder()
    conduct: Any = Conduct(cluster=None)
    conduct.hands, conduct.due, conduct._hush = recorder, recorder, lambda: late
    conduct._next_tick_s = time.monotonic() + 60
    conduct.lease.hold = lambda: True
    reader, writer = os.pipe()
    conduct.selector.register(reader, selectors.EVENT_READ, lambda: ENDED)
    os.close(writer)

    conduct._turn()

    conduct.selector.unregister(reader)
    os.close(reader)
    assert recorder.asked == ["start_due", asked]


@pytest.mark.django_db
class TestLease:
    def test_one_holds_it_at_a_time(self) -> None:
        mine, yours = TickLease(processes.own_identity()), TickLease("other-boot:1:1")
        assert mine.hold() and not yours.hold()
        assert mine.hold()
        mine.release()
        assert TickLease("other-boot:1:1").hold()

    def test_a_dead_holder_of_this_machine_is_followed_at_once(self) -> None:
        boot = processes.boot_id()
        assert TickLease(f"{boot}:1:99999999").hold()
        assert TickLease(processes.own_identity()).hold()

    def test_a_silent_holder_elsewhere_is_followed_after_its_lease(self) -> None:
        assert TickLease("other-boot:1:1").hold()
        assert not TickLease(processes.own_identity()).hold()
        ConductLease.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert TickLease(processes.own_identity()).hold()

    def test_it_is_beaten_every_ten_seconds_only(
        self, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
    ) -> None:
        now_s = 1000.0
        monkeypatch.setattr(lease.processes, "now_s", lambda: now_s)
        mine = TickLease(processes.own_identity())
        assert mine.hold()
        with django_assert_num_queries(0):
            assert mine.hold()
        now_s += 10
        with django_assert_num_queries(1):
            assert mine.hold()


@pytest.mark.django_db
def test_quiet_ends_with_others_writes_what_goes_on_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, version = 1000.0, 1
    monkeypatch.setattr(quiet.processes, "now_s", lambda: now_s)
    monkeypatch.setattr(quiet, "data_version", lambda: version)
    still = Quiet()
    assert not still.lasts()
    still.looked(restless=False)
    assert still.lasts()
    version = 2
    assert not still.lasts()
    still.looked(restless=True)
    assert not still.lasts()
    still.looked(restless=False)
    assert still.lasts()
    now_s += quiet.LONGEST_S
    assert not still.lasts()
    version = None
    still.looked(restless=False)
    assert not still.lasts()
    assert not still.lasts()


@pytest.mark.django_db
def test_the_minute_sweep_is_scheduled_once() -> None:
    from django_q.models import Schedule

    ensure_sweep()
    ensure_sweep()
    schedule = Schedule.objects.get(name=SWEEP_NAME)
    assert (schedule.func, schedule.minutes, schedule.repeats) == ("conductor_site.tasks.sweep", 1, -1)


@pytest.mark.django_db
def test_a_pulse_beats_its_own_clusters_row(monkeypatch: pytest.MonkeyPatch) -> None:
    pulse("asked-by")
    monkeypatch.setenv("CONDUCTOR_CLUSTER", "ran-by")
    pulse("asked-by")
    assert set(Pulse.objects.values_list("cluster", flat=True)) == {"asked-by", "ran-by"}
