"""What agents say at a gate: shown beside the reviewer's form, kept with the decision. Never more.

Some are asked by people, item by item (an ask); others come by a token of their own and say what they would answer (a
suggestion). Both are advice. An answer counts for what was shown, so it names the advice that was on the page
(`seen_advice`); what came in later is not part of it. Advice changes neither the form's initial values nor the gate's
digest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet, Subquery

from gates.errors import StaleAnswer
from gates.models import Evidence, Gate, Suggestion
from gates.showing import Section, arrange
from gates.store import PICTURES, path_of
from jobs.agents.models import Agent, Ask
from jobs.agents.prompts import Template
from jobs.agents.services import Question
from record.canonical import canonical_text, sha256_hex
from record.errors import BadInput

MOST_PICTURES = 4
MAX_PICTURE_BYTES = 4 * 1024 * 1024
MOST_SEEN = 5000


@dataclass
class Advice:
    """What agents said at a gate, as its page shows it: the newest answer of each about each item, and suggestions."""

    by_item: dict[str, list[Ask]] = field(default_factory=dict)
    ended: list[Ask] = field(default_factory=list)
    suggestions: list[Suggestion] = field(default_factory=list)
    waiting: int = 0
    said: int = 0

    @property
    def total(self) -> int:
        return len(self.ended) + self.waiting

    @property
    def keys(self) -> list[str]:
        """What is shown, by its uuids: what an answer to the gate then names."""
        return [str(each.uuid) for each in (*self.ended, *self.suggestions)]


def advice_at(gate: Gate) -> Advice:
    """The advice at a gate; in two queries, without prompts.

    A suggestion that its agent replaced is shown only at a gate that was decided in sight of it.
    """
    newest: dict[tuple[int, str], Ask] = {}
    asks = list(
        Ask.objects.filter(subject_uuid=gate.uuid)
        .select_related("lab")
        .defer("prompt", "result_schema", "attachments")
        .order_by("id")
    )
    for ask in asks:
        newest[ask.agent_id, ask.item] = ask
    advice = Advice()
    for ask in newest.values():
        if ask.is_ended:
            advice.ended.append(ask)
        else:
            advice.waiting += 1
        advice.by_item.setdefault(ask.item, []).append(ask)
    suggestions: list[Any] = list(_shown_suggestions(gate))
    suggested = suggestions[0].in_all if suggestions else 0  # what replaced another is itself shown
    advice.suggestions = suggestions
    advice.said = sum(ask.is_ended for ask in asks) + suggested
    return advice


def _shown_suggestions(gate: Gate) -> QuerySet[Any]:
    """The suggestions to show, each with how many there were at the gate `in_all`."""
    decided_on = gate.decision.evidence.get("advice", {}) if gate.decision else {}
    in_all = gate.suggestions.order_by().values("gate").annotate(count=Count("pk")).values("count")
    shown = Q(replaced_at=None) | Q(uuid__in=list(decided_on))
    return gate.suggestions.filter(shown).annotate(in_all=Subquery(in_all))


def count_said(gate: Gate) -> int:
    """How often agents have said something at the gate, be it replaced or not: a page that is older knows of less."""
    return Ask.objects.filter(subject_uuid=gate.uuid, ended_at__isnull=False).count() + gate.suggestions.count()


def seen_advice(gate: Gate, keys: Iterable[Any]) -> dict[str, str]:
    """uuid -> digest of the advice that somebody saw; StaleAnswer for what was never said at this gate."""
    wanted = {_uuid(key) for key in keys}
    if len(wanted) > MOST_SEEN:
        raise BadInput(f"{len(wanted)} pieces of advice are more than a gate shows.")
    if not wanted:
        return {}
    found = Ask.objects.filter(subject_uuid=gate.uuid, uuid__in=wanted, ended_at__isnull=False)
    digests = {str(uuid): digest for uuid, digest in found.order_by("id").values_list("uuid", "digest")}
    for suggestion in gate.suggestions.filter(uuid__in=wanted):
        digests[str(suggestion.uuid)] = sha256_hex(canonical_text(suggestion.facts()))
    if len(digests) != len(wanted):
        raise StaleAnswer(
            f"You name advice that no agent gave at {gate.title} ({gate.context}). Look again, and answer on that."
        )
    return digests


def item_question(gate: Gate, template: Template, item: str, sections: Mapping[str, Section]) -> Question:
    """A question about one item: its figures and its pictures, as they are shown to people."""
    section = sections.get(item) or Section(item)
    figures = "\n".join(f"{label}: {value}" for label, value in section.figures)
    data = {
        "The item": item,
        "What the gate is about": gate.context,
        "Figures of the item": figures or "there are none",
    }
    return Question(template, data, item, _pictures(section))


def sections_of(gate: Gate) -> dict[str, Section]:
    """item -> what is shown of it, without what is suggested of it: agents say their own."""
    return {section.item: section for section in arrange(gate.evidence.all(), {}, gate.figures)}


def agents_of(lab_id: int) -> list[Agent]:
    """The agents that can be asked in a lab."""
    return list(Agent.objects.filter(lab_id=lab_id, off_since=None).order_by("name"))


def _pictures(section: Section) -> list[dict[str, str]]:
    """The first few pictures of an item, the middle slice of each stack before others."""
    shown = [stack.start for stack in section.stacks] + section.pictures
    fit = [each for each in shown if each.media_type in PICTURES and each.size_bytes <= MAX_PICTURE_BYTES]
    return [_picture(piece) for piece in fit[:MOST_PICTURES]]


def _picture(piece: Evidence) -> dict[str, str]:
    suffix = ".png" if piece.media_type.endswith("png") else ".jpg"
    name = "".join(each if each.isalnum() or each in "._-" else "_" for each in piece.name.removesuffix(suffix))
    return {
        "name": f"{name.lstrip('.')[:100]}{suffix}",
        "path": str(path_of(piece.sha256)),
        "sha256": piece.sha256,
        "media_type": piece.media_type,
        "caption": piece.caption or piece.title,
    }


def _uuid(key: Any) -> UUID:
    try:
        return UUID(str(key))
    except ValueError as error:
        raise BadInput(f"{str(key)[:60]!r} names no advice: give the uuids that were shown.") from error
