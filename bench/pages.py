"""How long lists and pages take, asked over HTTP one after another, as a person's browser or a script does."""

import time
from collections.abc import Sequence

from django.conf import settings
from django.test import Client

from bench.figures import Figure, percentile
from bench.lab import Bench
from bench.site import Site
from runs.models import Phase, Run
from runs.states import PhaseState, RunState

RUNS = 10_000
PHASES_A_RUN = 8
LANES, PHASES_A_LANE = 4, 50
REQUESTS = 60
SHARE = 0.95


def reading(bench: Bench, site: Site) -> list[Figure]:
    """50 of many runs by the API and as a page, and the page of a run with 200 phases; each the 95th percentile."""
    large = _large_run(bench)
    _insert_runs(bench, like=large)
    token = {"Authorization": f"Token {bench.token}"}
    signed_in = {"Cookie": _session_of(bench)}
    return [
        _figure(f"50 of {RUNS:,} runs, API", 50.0, site, "/api/v1/runs/", token),
        _figure(f"50 of {RUNS:,} runs, page", 60.0, site, "/runs/", signed_in),
        _figure(f"run with {LANES * PHASES_A_LANE} phases, page", 120.0, site, f"/runs/{large.pk}/", signed_in),
    ]


def _figure(name: str, limit_ms: float, site: Site, path: str, headers: dict[str, str]) -> Figure:
    times_ms = _times_ms(site, path, headers)
    note = f"95th percentile of {REQUESTS}; median {percentile(times_ms, 0.5):.0f} ms"
    return Figure(name, percentile(times_ms, SHARE), "ms", limit_ms, note)


def _times_ms(site: Site, path: str, headers: dict[str, str]) -> Sequence[float]:
    times_ms = []
    for number in range(REQUESTS + 3):
        began = time.perf_counter()
        status, body = site.get(path, headers)
        took_ms = (time.perf_counter() - began) * 1000
        if status != 200:
            raise RuntimeError(f"{path} answered {status}: {body[:300]!r}")
        if number >= 3:  # the first ones compile templates
            times_ms.append(took_ms)
    return times_ms


def _large_run(bench: Bench) -> Run:
    """A run with 200 phases, paused so that none of them starts, some of them done."""
    pipeline = bench.pipeline("large", phases=PHASES_A_LANE, lanes=LANES)
    bench.target.paused = True  # so that none of its jobs begins
    bench.target.save(update_fields=["paused"])
    run = bench.begin(pipeline, "large", species=[f"s{lane}" for lane in range(LANES)])
    Run.objects.filter(pk=run.pk).update(state=RunState.PAUSED)
    done = Phase.objects.filter(run=run, position__lt=PHASES_A_LANE // 2)
    done.update(state=PhaseState.DONE, attempt=1, completion="done")
    return run


def _insert_runs(bench: Bench, *, like: Run) -> None:
    runs = Run.objects.bulk_create(
        (
            Run(
                lab=bench.lab,
                name=f"inserted-{number}",
                snapshot=like.snapshot,
                target=bench.target,
                work_dir=f"{bench.folder}/inserted-{number}",
                state=RunState.DONE,
                created_by=bench.person,
                ended_at=like.created_at,
            )
            for number in range(RUNS)
        ),
        batch_size=1000,
    )
    Phase.objects.bulk_create(
        (
            Phase(run=run, key=f"p{position}", title=f"Step {position}", position=position, state=PhaseState.DONE)
            for run in runs
            for position in range(PHASES_A_RUN)
        ),
        batch_size=2000,
    )


def _session_of(bench: Bench) -> str:
    """The cookie of a browser in which the person has signed in."""
    client = Client()
    client.force_login(bench.person)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
