"""The referee sees what is lost, done twice and told wrongly; a trial that went well it leaves alone."""

from typing import Any

import pytest

from faults.referee import Tally, count_ends, judge_job, read_tally
from faults.report import as_json, complaints, table
from faults.trials import Fault, Part, Trial

KILL = Fault("kill -9", "conduct", "claimed")
EXCUSED = Fault("kill -9", "guard", "started", excuses=True)
WELL: dict[str, Any] = {
    "state": "succeeded", "exit_code": 0, "reason": "", "ended_at": "now", "final_handled": True,
}  # fmt: skip
FAILED = WELL | {"state": "failed", "exit_code": 7, "reason": "Exit code 7."}


def judged(row: dict[str, Any] | None, began: int, codes: list[int], *, ends: int = 1, fault: Fault = KILL) -> Trial:
    trial = Trial("j1x", fault, "here")
    tally = Tally()
    tally.began["j1x"] = began
    tally.ended["j1x"] = codes
    judge_job(trial, row, tally, ends)
    return trial


@pytest.mark.parametrize(
    ("row", "began", "codes", "fault"),
    [
        (WELL, 1, [0], KILL),
        (FAILED, 1, [7], KILL),
        (WELL | {"state": "failed", "exit_code": None, "reason": "Its guard was killed."}, 1, [], EXCUSED),
        (WELL | {"state": "failed", "exit_code": None, "reason": "Its guard was killed."}, 1, [0], EXCUSED),
    ],
)
def test_what_went_well(row: dict[str, Any], began: int, codes: list[int], fault: Fault) -> None:
    trial = judged(row, began, codes, fault=fault)
    assert (trial.lost, trial.doubled, trial.wrong) == ("", "", "")


@pytest.mark.parametrize(
    ("row", "began", "codes"),
    [
        (None, 1, [0]),
        (WELL | {"state": "running", "ended_at": None}, 1, [0]),
        (WELL | {"final_handled": False}, 1, [0]),
        (WELL, 0, []),
    ],
)
def test_what_was_lost(row: dict[str, Any] | None, began: int, codes: list[int]) -> None:
    assert judged(row, began, codes).lost


def test_what_was_done_twice() -> None:
    assert judged(WELL, 2, [0]).doubled
    assert judged(WELL, 1, [0, 0]).doubled
    assert judged(WELL, 1, [0], ends=2).doubled


@pytest.mark.parametrize(
    ("row", "codes"),
    [
        (WELL, [7]),
        (WELL, []),
        (FAILED, [0]),
        (FAILED, [3]),
        (FAILED, []),
        (WELL | {"state": "cancelled"}, [0]),
        (WELL | {"state": "timed_out"}, []),
    ],
)
def test_what_was_told_wrongly(row: dict[str, Any], codes: list[int]) -> None:
    assert judged(row, 1, codes).wrong


def test_a_failure_without_words_excuses_nothing() -> None:
    assert judged(WELL | {"state": "failed", "reason": ""}, 1, [], fault=EXCUSED).wrong


def test_what_scripts_said(tmp_path: Any) -> None:
    (tmp_path / "began").write_text("j1x\nj2x\nj1x\n")
    (tmp_path / "ended").write_text("j1x 7\n")
    tally = read_tally(tmp_path)
    assert tally.began == {"j1x": 2, "j2x": 1} and tally.ended == {"j1x": [7]}


def test_ends_are_counted_by_subject() -> None:
    events = [{"subject_uuid": "a-b", "kind": kind} for kind in ("job.start", "job.fail", "job.succeed")]
    assert count_ends(events) == {"ab": 2}


def test_the_report() -> None:
    good, bad = Trial("j1x", KILL, "here"), Trial("j2x", KILL, "here", doubled="it began 2 times")
    well, ill = Part("well", [good], chains=1), Part("ill", [bad], chain_faults=["a gap"], failure="TooLate: x")
    assert as_json([well], seconds=1.4) == (
        '{"trials": 1, "lost": 0, "doubled": 0, "wrong": 0, "chain_ok": true, "seconds": 1}'
    )
    assert '"doubled": 1' in as_json([well, ill], seconds=2) and '"chain_ok": false' in as_json([well, ill], seconds=2)
    assert table([well, ill]).splitlines()[-1].split()[-4:] == ["1", "0", "1", "0"]
    assert complaints([well]) == [] and len(complaints([ill])) == 3
