"""A phase is checked by the lab's own validate.sh and by our own look: two answers of three kinds."""

import shutil
from pathlib import Path

import pytest

from gates.models import Gate
from record.errors import NotAllowed
from record.models import Event
from record.services import Author
from runs.models import Preflight, Run
from runs.services.validate import Validation, validate_phase
from runs.tests.factories import Bench, phase_of, states
from runs.tests.opus_et.folder import HERE, SPECIES, write_data, write_folder, write_tools
from runs.validation.report import Answer


@pytest.fixture
def run(bench: Bench, tmp_path: Path) -> Run:
    """The stand-ins' run at its gate of the alignment, with a validate.sh."""
    folder = write_folder(tmp_path / "lab", write_data(tmp_path / "data"), write_tools(tmp_path / "tools"))
    shutil.copy(HERE / "validate.sh", folder)
    run = bench.begin(pipeline=bench.add_pipeline(folder, "opus-et"), species=list(SPECIES))
    bench.drive()  # the target is looked at before the settings are asked
    bench.approve("setup", **Gate.objects.get(key="setup").suggestion)
    bench.drive()
    return run


def checked(bench: Bench, run: Run, key: str, species: str | None = None) -> Validation:
    return validate_phase(phase=phase_of(run, key, species), author=bench.operator)


def test_both_are_asked_and_what_they_say_is_an_event(bench: Bench, run: Run) -> None:
    found = checked(bench, run, "3b")
    assert (found.theirs.answer, found.theirs.done, found.theirs.total) == (Answer.PASS, 6, 6)
    assert (found.ours.answer, found.ours.done, found.ours.total) == (Answer.PASS, 3, 3)

    (Path(run.work_dir) / "tiltstack/Position_1/Position_1.tlt").unlink()
    before = states(run)
    found = checked(bench, run, "3b")
    assert found.theirs.problems == ("angles: 2/3",) and (found.theirs.done, found.theirs.total) == (5, 6)
    assert found.ours.problems == ("tiltstack/Position_1/Position_1.tlt is missing",)
    assert states(run) == before
    said = Event.objects.filter(kind="phase.validate").order_by("-id")[0]
    assert said.message.endswith(
        "checked by operator. validate.sh: fail, 5 of 6: angles: 2/3. "
        "Our own look: fail, 2 of 3: tiltstack/Position_1/Position_1.tlt is missing."
    )
    assert said.data["theirs"]["answer"] == "fail"


def test_where_it_is_silent_our_own_look_stands(bench: Bench, run: Run) -> None:
    found = checked(bench, run, "1")
    assert (found.theirs.answer, found.ours.answer) == (Answer.NOT_CHECKED, Answer.PASS)


def test_one_whose_folder_is_missing_has_not_been_started(bench: Bench, run: Run) -> None:
    found = checked(bench, run, "6g", "fas")
    assert (found.theirs.answer, found.ours.answer) == (Answer.NOT_STARTED, Answer.NOT_STARTED)
    (Path(run.work_dir) / "template_matching/fas/warp_star").mkdir(parents=True)
    (Path(run.work_dir) / "template_matching/fas/warp_star/Position_1_warp.star").write_text("data_\n")
    found = checked(bench, run, "6g", "fas")
    assert (found.theirs.answer, found.theirs.done, found.ours.done) == (Answer.FAIL, 1, 1)


def test_what_prints_no_report_is_not_checked_and_says_what_it_printed(bench: Bench, run: Run) -> None:
    script = Path(run.work_dir) / ".conductor/pipeline/validate.sh"
    script.write_text("echo 'conda: command not found' >&2\nexit 0\n")
    found = checked(bench, run, "3b")
    assert (found.theirs.answer, found.ours.answer) == (Answer.NOT_CHECKED, Answer.PASS)
    assert found.theirs.problems == ("validate.sh printed nothing. It complained: conda: command not found",)


def test_its_environment_is_taken_for_granted_once_it_was_looked_at(bench: Bench, run: Run) -> None:
    script = Path(run.work_dir) / ".conductor/pipeline/validate.sh"
    script.write_text('echo "$@"\n')
    assert "--assume-env" in checked(bench, run, "3b").theirs.problems[0]
    Preflight.objects.update(findings=[{"key": "WARP_ENV", "status": "blocks"}])
    assert "--assume-env" not in checked(bench, run, "3b").theirs.problems[0]
    Preflight.objects.all().delete()
    assert "--assume-env" not in checked(bench, run, "3b").theirs.problems[0]


def test_a_reviewer_does_not_run_commands(bench: Bench, run: Run) -> None:
    with pytest.raises(NotAllowed):
        validate_phase(phase=phase_of(run, "2"), author=Author.person(bench.people.viewer, "web"))
