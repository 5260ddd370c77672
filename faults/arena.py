"""Where trials are held: a stage with its database and folders, those who work on it, a book of what befell whom."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from conductor_site.tests.stage import ROOT, Stage
from conductor_site.tests.stores import Store
from faults.limits import Limits, TooLate
from faults.processes import end_all
from faults.referee import count_ends, judge_job, plain, read_tally
from faults.trials import Fault, Part, Trial
from jobs.processes import read_stat

AWAY = ("submitting", "queued", "running", "unknown", "lost")
STALL_S = 2.5  # longer than a claim's lease on a stage (1 s) and two ticks
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
WORDS = {"kill": "kill -9", "stop": "stop (SIGSTOP)"}


class Arena:
    """One stage. `keep` processes alive, `plan` jobs, `befall` those in flight, and in the end `settle` and judge."""

    def __init__(self, folder: Path, template: Store, limits: Limits, *, where: str, seed: int) -> None:
        self.folder = folder
        self.limits = limits
        self.where = where
        self.chance = random.Random(f"{seed} {where}")  # noqa: S311 - the same trials for the same seed
        self.tally = folder / "tally"
        self.armed = folder / "armed"
        for each in (self.tally, self.armed, folder / "work", folder / "var"):
            each.mkdir(parents=True, exist_ok=True)
        self.tally.chmod(0o777)  # noqa: S103 - jobs on a cluster run as another user
        self.stage = Stage(folder, template.copy(folder / "var"))
        self.stage.environment |= {"CONDUCTOR_FAULTS_ARMED": str(self.armed), "CONDUCTOR_LOG_LEVEL": "INFO"}
        self.slots(8)
        self.trials: dict[str, Trial] = {}
        self.kept: dict[str, tuple[Callable[[], subprocess.Popen[bytes]], subprocess.Popen[bytes]]] = {}

    # Who works

    def keep(self, name: str, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        """Start somebody, who is started anew by `mend` after a death."""
        self.kept[name] = (start, start())

    def conduct(self, name: str, **given: Any) -> None:
        """Keep a `conduct` with a data folder of that name."""
        self.keep(name, lambda: self.stage.conduct(data=name, **given))

    def mend(self) -> None:
        """Start anew all that have died."""
        for name, (start, process) in self.kept.items():
            if process.poll() is not None:
                self.kept[name] = (start, start())

    def pids(self) -> list[int]:
        """Of all that are kept and alive."""
        return [process.pid for _, process in self.kept.values() if process.poll() is None]

    def send(self, pids: Iterable[int], action: str) -> None:
        """Kill or stop (or `go on` with) these, and wait until they are dead or stopped."""
        pids = list(pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGNALS.get(action, signal.SIGCONT))
        if action in SIGNALS:
            self.limits.until(lambda: all(_is_felled(pid) for pid in pids), what=f"{pids} are felled by {action}")

    # What there is to do

    def slots(self, count: int) -> None:
        self.stage.execute(f"update jobs_target set slots = {count}")  # noqa: S608 - a number of ours

    def plan(
        self, count: int = 1, *, code: int = 0, seconds: tuple[float, float] = (0.2, 0.7), **columns: Any
    ) -> list[str]:
        """Plan jobs, in one transaction, that say when they begin and end, and end with `code`; their tokens."""
        body = (
            f"echo $CONDUCTOR_TOKEN >> {self.tally}/began\nsleep {self.chance.uniform(*seconds):.2f}\n"
            f"echo $CONDUCTOR_TOKEN {code} >> {self.tally}/ended\nexit {code}"
        )
        return self.stage.plan(body, count=count, **columns)

    def in_flight(self, *, planned: bool = False) -> list[str]:
        """Tokens of the jobs that were taken up and have not ended (with `planned`: or wait to be)."""
        states = {*AWAY, "planned"} if planned else AWAY
        rows = self.stage.rows("select token, state from jobs_job where ended_at is null order by id")
        return [row["token"] for row in rows if row["state"] in states]

    def until_in_flight(self, count: int, states: tuple[str, ...] = ("running",)) -> None:
        """Wait until so many jobs are in one of these states."""

        def there() -> bool:
            rows = self.stage.rows("select state from jobs_job where ended_at is null")
            return sum(row["state"] in states for row in rows) >= count

        self.limits.until(there, what=f"{count} jobs are {' or '.join(states)}")

    def befall(self, fault: Fault, keys: Iterable[str]) -> None:
        """Write down whom a fault befell; each counts once, under its first."""
        for key in keys:
            self.trials.setdefault(key, Trial(key, fault, self.where))
            if fault.excuses and not self.trials[key].fault.excuses:
                self.trials[key].fault = fault

    # Points in the code

    def arm(self, boundary: str, action: str) -> None:
        """Have the first process that comes to that point fall."""
        part = self.armed / f"part.{boundary}"
        part.write_text(f"{action}\n")
        part.rename(self.armed / boundary)

    def disarm(self) -> None:
        """Take back what nobody came by."""
        for path in self.armed.iterdir():
            if ".fell." not in path.name:
                path.unlink(missing_ok=True)

    def fallen(self, boundary: str, *, within_s: float = 60) -> tuple[int, str]:
        """Wait until somebody has fallen there: who (pid), and at what."""

        def found() -> tuple[int, str] | None:
            for path in self.armed.glob(f"{boundary}.fell.*"):
                words = path.read_text().partition(" at ")
                pid = int(path.suffix[1:])
                if words[1] and words[2].endswith("\n") and _is_felled(pid):
                    path.unlink()
                    return pid, words[2].strip()
            return None

        return self.limits.until(found, what=f"somebody falls at {boundary}", within_s=within_s)

    # The end

    def settle(self, *, within_s: float = 120) -> None:
        """With everybody well again, wait until all jobs have ended, and a little for those who come late.

        What has not ended by then is for the referee to call lost.
        """
        self.disarm()
        self.mend()
        with suppress(TooLate):
            self.limits.until(lambda: not self._unended(), what="all have ended", within_s=within_s, every_s=0.2)
        self.limits.rest(1.5)

    def _unended(self) -> bool:
        self.mend()
        return bool(self.stage.rows("select 1 from jobs_job where ended_at is null or not final_handled limit 1"))

    def judge(self, part: Part) -> None:
        """Say of each trial of a job what became of it, and of the record whether it holds."""
        rows = {row["token"]: row for row in self.stage.rows()}
        ends = count_ends(self.stage.rows("select subject_uuid, kind from record_event"))
        tally = read_tally(self.tally)
        for trial in self.trials.values():
            row = rows.get(trial.key)
            judge_job(trial, row, tally, ends[plain(row["uuid"])] if row else 0)
        self.judge_chain(part)

    def judge_chain(self, part: Part) -> None:
        """Hand in the trials, which have been judged, and what is wrong with the record."""
        part.trials += self.trials.values()
        part.chain_faults += self.chain_faults()
        part.chains += 1

    def chain_faults(self) -> list[str]:
        """What `verify_record` says against the record."""
        done = self.manage("verify_record")
        return [] if done.returncode == 0 else (done.stdout + done.stderr).strip().splitlines()[-5:]

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of manage.py on the arena's database."""
        return subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "manage.py", *words], cwd=ROOT, env=self.stage.environment, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip

    def close(self) -> None:
        """End all that was started here."""
        for _, process in self.kept.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.stage.close()
        end_all(f"{self.folder}/".encode())
        self.stage.store.drop()


def _is_felled(pid: int) -> bool:
    """Dead, a zombie, or stopped."""
    stat = read_stat(pid)
    return stat is None or stat.state in "ZXTt"
