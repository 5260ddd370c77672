"""A site that is started for one run, driven through the API to the run's end, and stopped."""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from django.conf import settings

from conductor_site.demo.check import GateKeeper
from conductor_site.demo.client import Client
from conductor_site.demo.resume import end_jobs
from conductor_site.demo.setup import Demo, prepare_demo, prepare_site, start_demo_run
from conductor_site.demo.supervisor import Site, open_door
from runs.models import Run


@dataclass
class Passage:
    """One run that went through. `seconds` is from the start of the site to the end of the run."""

    run: Run
    keeper: GateKeeper
    seconds: float


def see_run_through(*, name: str, preset: str, conf: dict[str, str] | None, say: Callable[[str], None]) -> Passage:
    """Start a site, start the run, answer its gates through the API until it is done, stop the site.

    Raises RuntimeError, in words, where the run can't be brought to its end.
    """
    with _site() as site:
        prepare_site()
        demo = prepare_demo()
        begun = time.monotonic()
        site.start()
        keeper = GateKeeper(Client(site.address), site, say)
        try:
            run = _start(demo, keeper, name=name, preset=preset, conf=conf)
            keeper.see_through(run.pk)
        except BaseException:
            _end_work(demo, say)
            raise
        return Passage(run, keeper, time.monotonic() - begun)


def clear_away() -> None:
    """Remove the scratch folder of a check that held; a failed one keeps its folder to be looked at."""
    if settings.DATA_DIR.name.startswith("check-"):
        shutil.rmtree(settings.DATA_DIR)


def _start(demo: Demo, keeper: GateKeeper, *, name: str, preset: str, conf: dict[str, str] | None) -> Run:
    keeper.sign_in(demo.reviewer.username, demo.password)
    run = start_demo_run(demo, name=name, preset=preset, conf=conf)
    keeper.say(f"Run {run.name} has begun in {run.work_dir}")
    return run


@contextmanager
def _site() -> Iterator[Site]:
    """A site that is not started yet, and is stopped in any case. SIGTERM stops a check as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    site = Site(open_door(8100), settings.DATA_DIR)
    site.claim()
    try:
        yield site
    except KeyboardInterrupt:
        raise RuntimeError("it was interrupted") from None
    finally:
        site.stop()


def _end_work(demo: Demo, say: Callable[[str], None]) -> None:
    """Leave no job behind: nobody will take up the run of a check that did not get through."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("Stopping what still runs ...")
    end_jobs(demo.reviewer)
