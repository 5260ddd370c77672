"""`manage.py demo`: the site with its demo run, live in the terminal."""

import signal
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from conductor_site.demo.resume import live_jobs, retry_stopped, take_up_again
from conductor_site.demo.screen import Screen, gate_lines, phase_lines
from conductor_site.demo.setup import REVIEWER, Demo, prepare_demo, prepare_site, start_demo_run
from conductor_site.demo.supervisor import Site, open_door
from runs.models import Run
from runs.states import RunState

REDRAW_S = 0.5


class Command(BaseCommand):
    help = "Starts the web server and conduct on loopback with the demo run, and shows what happens."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--preset", default="", help="preset of the demo pipeline (tiny takes seconds)")

    def handle(self, *args: Any, preset: str, **options: Any) -> None:
        site = Site(open_door(8000), settings.DATA_DIR)
        site.claim()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            prepare_site()
            demo = prepare_demo()
            site.start()
            run = start_demo_run(demo, name="demo", preset=preset)
            take_up_again(run, demo.reviewer)
            self._introduce(site, demo)
            self._follow(site, run, demo)
        except KeyboardInterrupt:
            self.stdout.write("\nStopping the site ...")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cut the stopping short
            site.stop()
        self.stdout.write("The site is stopped.")
        if site.children:  # else the database may not even have its tables yet
            self._list_jobs()

    def _introduce(self, site: Site, demo: Demo) -> None:
        self.stdout.write(f"\nConductor is at {site.address}  (loopback only)")
        self.stdout.write(f"Sign in as {REVIEWER} with the password {demo.password}")
        self.stdout.write("Ctrl-C stops the site; what it did is kept, and `make demo` goes on from there.\n")

    def _follow(self, site: Site, run: Run, demo: Demo) -> None:
        screen = Screen()
        while True:
            site.keep_running()
            run.refresh_from_db()
            retry_stopped(run, demo.reviewer)
            waiting = gate_lines(run, site.address)
            head = f"Run {run.name}: {run.get_state_display()}" + (", waiting for you:" if waiting else "")
            if run.state == RunState.DONE:
                head = f"Run {run.name} is done: {site.address}/runs/{run.pk}/"
            screen.show([*phase_lines(run), "", head, *waiting])
            time.sleep(REDRAW_S)

    def _list_jobs(self) -> None:
        jobs = live_jobs()
        for job in jobs:
            self.stdout.write(f"  {job.name} goes on ({job.get_state_display()})")
        if jobs:
            self.stdout.write("`make demo-stop` cancels these; `make demo` follows them again.")
