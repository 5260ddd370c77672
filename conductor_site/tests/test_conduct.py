"""`conduct` runs planned jobs to their ends."""

import os
import signal
from pathlib import Path

from conductor_site.tests.stage import LONG_S, Stage


def test_runs_a_job_to_its_end_and_stops_on_sigterm(stage: Stage) -> None:
    stage.plan('echo ran >> ran; echo "$GREETING"; exit 3', environment={"GREETING": "hello"})
    conduct = stage.conduct()

    row = stage.until_state("failed")

    assert (row["exit_code"], row["final_handled"]) == (3, 1)
    assert "Exit code 3" in row["reason"]
    assert stage.lines() == ["ran"]
    assert Path(row["stdout_path"]).read_text() == "hello\n"
    assert stage.events() == ["job.claim", "job.start", "job.fail"]
    conduct.send_signal(signal.SIGTERM)
    assert conduct.wait(LONG_S) == 0


def test_refuses_to_begin_where_the_record_is_not_protected(stage: Stage) -> None:
    stage.plan("echo ran >> ran")
    stage.execute(f"drop trigger record_decision_delete {'on record_decision' if 'DATABASE_URL' in os.environ else ''}")

    conduct = stage.conduct()

    assert conduct.wait(LONG_S) == 1
    assert "the database lacks the triggers record_decision_delete" in (stage.folder / "conduct.log").read_text()
    assert stage.job()["state"] == "planned" and stage.lines() == []
