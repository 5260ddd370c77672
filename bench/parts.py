"""What is measured, in its order: first what needs an empty database, last what fills it."""

from collections.abc import Callable, Iterator
from statistics import median

from bench import pages, poll, upkeep, work
from bench.figures import Figure
from bench.lab import Bench, prepare
from bench.site import Site, running_site, start_time_s

STARTS = 5
WAITING_RUNS = 100


def figures_of(parts: list[str], *, rest_s: float) -> Iterator[Figure]:
    """The figures of these parts; `rest_s` is how long the site is watched at rest, in seconds."""
    bench = prepare()
    if "start" in parts:
        yield _start()
    if "poll" in parts:  # before `conduct` runs, which would take its turn at the cluster
        yield from poll.poll_tick(bench)
    with running_site() as site:
        for part, measure in _steps(bench, site, rest_s).items():
            if part in parts:
                yield from measure()


def _steps(bench: Bench, site: Site, rest_s: float) -> dict[str, Callable[[], list[Figure]]]:
    return {
        "idle": lambda: upkeep.at_rest(site, "idle", seconds=rest_s),
        "chain": lambda: [work.chain(bench)],
        "jobs": lambda: [work.many_jobs(bench)],
        "answer": lambda: [work.answer_to_next(bench, site)],
        "waiting": lambda: _waiting(bench, site, rest_s),
        "sweep": lambda: [upkeep.sweep(bench)],
        "pages": lambda: pages.reading(bench, site),
    }


def _start() -> Figure:
    took_s = [start_time_s() for _ in range(STARTS)]
    return Figure("web server answers after its start", median(took_s), "s", 2.5, f"median of {STARTS}")


def _waiting(bench: Bench, site: Site, rest_s: float) -> list[Figure]:
    work.wait_at_gates(bench, WAITING_RUNS)
    return upkeep.at_rest(site, f"{WAITING_RUNS} runs wait at gates", seconds=rest_s)
