"""Asks the lab's own validate.sh about a phase, and beside it looks for the outputs itself."""

from dataclasses import dataclass

from jobs.environment import after_lines
from jobs.shells import environment_of, shell_for, within_roots
from record.access import Ability, require
from record.errors import AdapterError, BadInput
from record.services import Author, record_event
from runs.models import Phase
from runs.pipeline.outputs import SERIES, expand
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.pipeline.store import folder_of
from runs.services.board import refuse_archived, series_names
from runs.services.exports import species_for
from runs.services.folder import write_files
from runs.services.looking import look_at, look_for
from runs.services.preflight import has_environment
from runs.services.values import pipeline_folder, species_file
from runs.services.verify import Finding, describe_problems
from runs.validation.report import Answer, Judgement, judge, parse_report

TIMEOUT_S = 120
PLACES = ("validate.sh", "scripts/validate.sh")


@dataclass(frozen=True)
class Validation:
    """What the lab's script says, and what our own look says: two answers, which may differ."""

    theirs: Judgement
    ours: Judgement

    def words(self) -> str:
        return f"validate.sh: {in_words(self.theirs)}. Our own look: {in_words(self.ours)}."


def validate_phase(*, phase: Phase, author: Author, reason: str = "") -> Validation:
    """Check a phase's outputs now, and note what was found as an event of the phase; its state stays as it is.

    The run's conf files are written first, as before a start, since the lab's script reads them. That
    script is told to take its environment for granted where a look at the target has found nothing against it.
    """
    if author.user is not None:
        require(author.user, Ability.OPERATE, phase.run.lab_id)
    refuse_archived(phase.run)
    spec = spec_of(phase.run.snapshot)
    write_files(phase.run, spec, series_names(phase.run).excluded)
    started = has_started(phase, spec)
    found = Validation(
        theirs=_unless_started(_ask_theirs(phase, spec, assume_env=has_environment(phase.run)), started),
        ours=_unless_started(_look(phase, spec), started),
    )
    record_event(
        lab_id=phase.run.lab_id,
        kind="phase.validate",
        subject=phase.subject(),
        message=f"{phase.named}: checked by {author.name}. {found.words()}" + (f" {reason.strip()}" if reason else ""),
        data={name: _facts(each) for name, each in (("theirs", found.theirs), ("ours", found.ours))},
    )
    return found


def in_words(judgement: Judgement) -> str:
    """ "fail, 2 of 3: TS_003.mrc is missing" """
    counted = f", {judgement.done} of {judgement.total}" if judgement.total else ""
    why = f": {describe_problems(judgement.problems)}" if judgement.problems else ""
    return f"{judgement.answer.label}{counted}{why}"


def has_started(phase: Phase, spec: PipelineSpec) -> bool:
    """Whether any folder that the phase writes in is there; True for one that only writes in the work folder itself."""
    look = look_for(phase, spec, [SERIES])
    filled = [expand(pattern, look.values) for pattern in [*look.phase.outputs, *(c.file for c in look.phase.checks)]]
    folders = {pattern.split(SERIES)[0].rpartition("/")[0] for pattern in filled if pattern}
    if not folders or "" in folders:
        return True
    found = shell_for(phase.run.target).glob(look.work_dir, [f"{folder}/**" for folder in sorted(folders)])
    return any(found.values())


def _ask_theirs(phase: Phase, spec: PipelineSpec, *, assume_env: bool) -> Judgement:
    place = next((each for each in PLACES if (folder_of(phase.run.snapshot.digest) / each).is_file()), "")
    if not place:
        return Judgement(Answer.NOT_CHECKED, problems=("this pipeline has no validate.sh",))
    run, phase_spec = phase.run, spec.by_key[phase.key]
    folder, target = pipeline_folder(run), run.target
    key = phase_spec.copy_of or phase.key
    argv = ["/bin/bash", f"{folder}/{place}", "--json", "--phase", key, *(["--assume-env"] if assume_env else [])]
    told = {"SKILL_DIR": folder, "WORK_DIR": run.work_dir, "PIPELINE_CONF": f"{folder}/pipeline.conf"}
    species = species_for(phase, phase_spec)
    if species is not None:
        told["SPECIES_CONF"] = f"{folder}/{species_file(spec, species.label)}"
        argv += ["--species", told["SPECIES_CONF"]]
    done = shell_for(target).run(
        after_lines(target.environment_lines, argv),
        env=environment_of(target) | told | phase_spec.exports,
        cwd=within_roots(target, run.work_dir),
        timeout_s=TIMEOUT_S,
    )
    try:
        return judge(parse_report(done.stdout), key)
    except BadInput as error:
        said = f" It complained: {done.stderr.strip()[-300:]}" if done.stderr.strip() else ""
        return Judgement(Answer.NOT_CHECKED, problems=(f"{error.message}{said}",))


def _look(phase: Phase, spec: PipelineSpec) -> Judgement:
    try:
        gathered = look_at(phase, spec)
    except AdapterError as error:
        if error.transient:
            raise
        return Judgement(Answer.NOT_CHECKED, problems=(error.message,))
    return of_finding(gathered.finding)


def of_finding(finding: Finding | None) -> Judgement:
    """Our own look as one of three answers: an output that can't be looked for is never a pass."""
    if finding is None:
        return Judgement(Answer.NOT_CHECKED)
    if finding.problems:
        return Judgement(Answer.FAIL, finding.done, finding.total, tuple(finding.problems))
    if finding.unchecked or not finding.total:
        words = tuple(f"{each} can't be looked for" for each in finding.unchecked) or ("it names no outputs",)
        return Judgement(Answer.NOT_CHECKED, finding.done, finding.total, words)
    return Judgement(Answer.PASS, finding.done, finding.total)


def _unless_started(judgement: Judgement, started: bool) -> Judgement:
    return Judgement(Answer.NOT_STARTED) if judgement.answer == Answer.FAIL and not started else judgement


def _facts(judgement: Judgement) -> dict[str, object]:
    return {
        "answer": judgement.answer.value,
        "done": judgement.done,
        "total": judgement.total,
        "problems": list(judgement.problems[:50]),
    }
