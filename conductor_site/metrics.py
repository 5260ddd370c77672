"""Figures for Prometheus, computed from the database when they are asked for.

So they are the same whichever web process answers, and none of them has to count anything. Every query reads what is
live (by partial indexes) or one row a lab; none walks through what has ended.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Count, Min, Q
from django.utils import timezone
from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE_LATEST
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from conductor_site.health import conduct_age_s, pulse_age_s
from gates.models import Gate
from gates.states import ENDED, GateState
from jobs.conditions import Condition, Fare, conditions
from jobs.drain import draining
from jobs.models import Job
from record.models import ChainHead, Delivery
from record.notices.models import DeliveryState
from runs.models import Phase, Run
from runs.states import PhaseState, RunState

LIVE_RUNS = [RunState.RUNNING, RunState.PAUSED]
TOLD_PHASES = [PhaseState.READY, PhaseState.RUNNING, PhaseState.VERIFYING, PhaseState.CHECKPOINT, PhaseState.FAILED]


def render_metrics() -> bytes:
    """All figures in Prometheus' text format; raises where the database fails."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Figures())
    return generate_latest(registry)


class Figures:
    """A collector of prometheus_client."""

    def collect(self) -> Iterator[Metric]:
        for group in GROUPS:
            yield from group()

    def describe(self) -> list[Metric]:
        """Nothing beforehand: names don't collide, since nobody else is in the registry."""
        return []


def _life() -> Iterator[Metric]:
    yield _plain("conductor_conduct_age_seconds", "Since a conduct last gave a sign of life.", conduct_age_s())
    yield _plain("conductor_pulse_age_seconds", "Since a task worker last took its pulse.", pulse_age_s())
    yield _plain("conductor_draining", "1 while nothing new is started, for maintenance.", float(bool(draining())))


def _tasks() -> Iterator[Metric]:
    from django_q.models import OrmQ

    yield _plain("conductor_tasks_waiting", "Tasks in the queue of the task clusters.", OrmQ.objects.count())


def _targets() -> Iterator[Metric]:
    told = conditions()
    now = timezone.now()
    for name, words, value in TARGET_FIGURES:
        metric = GaugeMetricFamily(f"conductor_target_{name}", words, labels=["lab", "target"])
        for each in told:
            metric.add_metric([each.target.lab.slug, each.target.name], float(value(each, now)))
        yield metric


def _rest_s(told: Condition, now: datetime) -> float:
    return (told.rests_until - now).total_seconds() if told.rests_until else 0.0


TARGET_FIGURES: list[tuple[str, str, Callable[[Any, datetime], float]]] = [
    ("slots", "Jobs that may run at once.", lambda told, _: told.target.slots),
    ("paused", "1 while nothing new is started there.", lambda told, _: told.target.paused),
    (
        "stuck",
        "1 where jobs wait though slots are free: who should start them?",
        lambda told, _: told.fare == Fare.STUCK,
    ),
    ("failures", "How often in a row the cluster could not be asked.", lambda told, _: told.failures),
    ("rest_seconds", "How long the cluster is still left alone.", _rest_s),
    (
        "needs_sign_in",
        "1 where a person has to open the connection.",
        lambda told, _: told.fare == Fare.NEEDS_SIGN_IN,
    ),
    ("jobs_away", "Jobs handed over and not known to have ended.", lambda told, _: told.target.away),
    ("jobs_planned", "Jobs planned and not handed over.", lambda told, _: told.target.planned),
]


def _jobs() -> Iterator[Metric]:
    live = Job.objects.live().order_by().values_list("lab__slug", "state")
    yield _counted("conductor_jobs", "Jobs that have not ended, by state.", "state", live)
    yield _plain(
        "conductor_jobs_unhandled",
        "Ended jobs whose consequences are still to be drawn.",
        Job.objects.unhandled().count(),
    )


def _runs() -> Iterator[Metric]:
    runs = Run.objects.active()
    yield _counted(
        "conductor_runs", "Runs that have not ended.", "state", runs.order_by().values_list("lab__slug", "state")
    )
    phases = Phase.objects.filter(state__in=TOLD_PHASES, run__state__in=LIVE_RUNS, run__archived_at=None)
    rows = phases.order_by().values_list("run__lab__slug", "state")
    yield _counted(
        "conductor_phases", "Phases of those runs that are ready, at work, waiting or failed.", "state", rows
    )


def _gates() -> Iterator[Metric]:
    current = Gate.objects.exclude(state__in=ENDED)
    yield _counted(
        "conductor_gates", "Gates in progress.", "state", current.order_by().values_list("lab__slug", "state")
    )
    oldest = GaugeMetricFamily("conductor_gate_oldest_open_seconds", "The longest wait at a gate.", labels=["lab"])
    opened = Gate.objects.filter(state=GateState.OPEN).order_by().values_list("lab__slug")
    for slug, at in opened.annotate(oldest=Min("opened_at")):
        oldest.add_metric([slug], _seconds_since(at))
    yield oldest


def _notices() -> Iterator[Metric]:
    told = Delivery.objects.filter(Q(ended_at=None) | Q(state=DeliveryState.GIVEN_UP))
    rows = told.order_by().values_list("event__lab__slug", "state")
    yield _counted("conductor_notices", "Notices that are owed, and those that were given up.", "state", rows)


def _record() -> Iterator[Metric]:
    decisions = CounterMetricFamily("conductor_decisions", "Decisions in the record.", labels=["lab"])
    for slug, count in ChainHead.objects.values_list("lab__slug", "count"):
        decisions.add_metric([slug], count)
    yield decisions


def _disks() -> Iterator[Metric]:
    free = shutil.disk_usage(settings.DATA_DIR).free
    yield _plain("conductor_data_free_bytes", "Free on the disk of the data folder.", free)
    yield _plain("conductor_database_bytes", "Size of the database.", _database_bytes())


GROUPS: list[Callable[[], Iterator[Metric]]] = [
    _life,
    _tasks,
    _targets,
    _jobs,
    _runs,
    _gates,
    _notices,
    _record,
    _disks,
]


def _plain(name: str, told: str, value: float | None) -> Metric:
    """One figure without labels; left out where there is none."""
    metric = GaugeMetricFamily(name, told)
    if value is not None:
        metric.add_metric([], value)
    return metric


def _counted(name: str, told: str, label: str, rows: Any) -> Metric:
    """How many rows there are of each (lab, value)."""
    metric = GaugeMetricFamily(name, told, labels=["lab", label])
    for slug, value, count in rows.annotate(count=Count("pk")):
        metric.add_metric([slug, value], count)
    return metric


def _seconds_since(at: datetime) -> float:
    return max(0.0, (timezone.now() - at).total_seconds())


def _database_bytes() -> float | None:
    if connection.vendor == "sqlite":
        return float(os.stat(connection.settings_dict["NAME"]).st_size)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            return float(cursor.fetchone()[0])
    return None
