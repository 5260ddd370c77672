"""What follows the end of a job that asked an agent: its report is read, kept and settled."""

import json
import shutil
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from jobs.agents import store
from jobs.agents.asjob import OUT_VARIABLE
from jobs.agents.models import Ask
from jobs.agents.parse import Reading, Unreadable, amount_or_none, count_or_none, inner_text, read_answer
from jobs.agents.runner.report import ANSWERED, MAX_RAW_BYTES, RAW, REPORT
from jobs.agents.services import Answered, lock_agent, settle_ask
from jobs.agents.states import AskState
from jobs.logs import clean, tail
from jobs.models import Job
from jobs.shells import Shell, shell_for
from jobs.states import JobState
from record.errors import AdapterError, ConductorError

MAX_REPORT_BYTES = 16 * 1024 * 1024  # the text of an answer, quoted for JSON, may be longer than what was written

# What a job's end means for the ask, whatever the runner could still report: it was ended from outside.
ENDS: dict[str, str] = {
    JobState.CANCELLED: AskState.WITHDRAWN,
    JobState.TIMED_OUT: AskState.TIMED_OUT,
    JobState.OUT_OF_MEMORY: AskState.FAILED,
}


@dataclass
class Report:
    """What the runner left: its report, and what the agent wrote, as it is kept."""

    outcome: str
    message: str = ""
    text: str = ""
    told: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


class Asked:
    """See jobs.final.FinalHandler (the job's `on_final` is jobs.asked)."""

    def gather(self, job: Job) -> Answered | None:
        """Read the report, keep what was written, and read the answer in it. None where the ask has ended already."""
        ask = Ask.objects.select_related("agent").filter(job=job, ended_at=None).first()
        return None if ask is None else gather_answer(ask, job)

    def lock(self, job: Job) -> None:
        """The agent, before the job."""
        ask = Ask.objects.filter(job=job).first()
        if ask is not None:
            lock_agent(ask.agent_id)

    def apply(self, job: Job, gathered: Answered | None) -> None:
        """Settle the ask; in the transaction that marks the job as handled."""
        ask = Ask.objects.filter(job=job).first()
        if ask is not None and gathered is not None:
            settle_ask(ask, gathered)
            folder = job.environment[OUT_VARIABLE]
            transaction.on_commit(lambda: shutil.rmtree(folder, ignore_errors=True))  # all of it is kept by now


ASKED = Asked()


def gather_answer(ask: Ask, job: Job) -> Answered:
    """How an ask ended, by what its job left; transient faults of the disk are raised, and it is gathered again."""
    shell = shell_for(job.target)
    try:
        report = _report(shell, job.environment[OUT_VARIABLE])
    except AdapterError as error:
        if error.transient:
            raise
        return _without_report(shell, job)
    if job.state in ENDS:
        return Answered(ENDS[job.state], _ended_text(job), None, report.facts)
    if report.outcome != ANSWERED:
        return Answered(report.outcome, report.message, None, report.facts)
    reading, told = _read(ask, report)
    return Answered(reading.outcome, reading.message, reading.result, report.facts | _known(told))


def _report(shell: Shell, folder: str) -> Report:
    """The runner's report; AdapterError (not transient) where there is none that can be read."""
    path = f"{folder}/{REPORT}"
    if shell.size(path) > MAX_REPORT_BYTES:
        raise AdapterError(f"{path} is too large to be a report.", transient=False)
    raw = shell.read(f"{folder}/{RAW}", limit=MAX_RAW_BYTES + 1)
    try:
        told = json.loads(shell.read(path, limit=MAX_REPORT_BYTES))
        outcome = str(told["outcome"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise AdapterError(f"{path} can't be read.", transient=False) from error
    if outcome != ANSWERED and outcome not in set(AskState.values) - {"ok", "waiting", "asked"}:
        raise AdapterError(f"{path} speaks of the outcome {outcome!r}, which there is not.", transient=False)
    kept = raw[:MAX_RAW_BYTES].decode("utf-8", "replace")  # redacted by the runner, where that holds up nobody else
    bytes_kept = kept.encode()[:MAX_RAW_BYTES]
    facts = {
        "raw_sha256": store.keep(bytes_kept) if bytes_kept else "",
        "raw_bytes": len(bytes_kept),
        "raw_cut": bool(told.get("cut")) or len(raw) > MAX_RAW_BYTES,
        "isolation": clean(str(told.get("isolation") or "").encode("utf-8", "replace"))[:12],
    }
    text = told.get("text")
    own = told.get("facts") if isinstance(told.get("facts"), dict) else {}
    message = clean(str(told.get("message") or "").encode("utf-8", "replace"))
    return Report(outcome, message, text if isinstance(text, str) else kept, own, facts | _known(own))


def _read(ask: Ask, report: Report) -> tuple[Reading, dict[str, Any]]:
    """(how the answer was read, what else the program told in its own envelope)."""
    try:
        text, told = inner_text(report.text, ask.agent.configuration.get("envelope", {}))
    except Unreadable as error:
        return Reading(AskState.NO_STATUS, f"What it wrote can't be read: {error}."), {}
    return read_answer(text, ask.result_schema, front_matter=ask.result_format == "front_matter"), told


def _known(told: dict[str, Any]) -> dict[str, Any]:
    """Model, tokens and cost as columns of the ask; only what is told and makes sense."""
    cost = amount_or_none(told.get("cost_usd"))
    model = told.get("model")
    found = {
        "tokens_in": count_or_none(told.get("tokens_in")),
        "tokens_out": count_or_none(told.get("tokens_out")),
        "cost_usd": None if cost is None else round(cost, 6),
        "model_name": clean(model.encode("utf-8", "replace"))[:120] if isinstance(model, str) else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _without_report(shell: Shell, job: Job) -> Answered:
    """The job ended and left no report: it was ended from outside, or the runner could not run."""
    message = _ended_text(job)
    outcome = ENDS.get(job.state, AskState.INFRA)
    if outcome == AskState.INFRA and job.stderr_path:
        try:
            message = f"{message} {tail(shell, job.stderr_path, lines=5).text.strip()}".strip()
        except ConductorError:
            message = f"{message} Its log can't be read."
    return Answered(outcome, message)


def _ended_text(job: Job) -> str:
    return f"Its job ended as {str(job.get_state_display()).lower()} and left no answer. {job.reason}".strip()
