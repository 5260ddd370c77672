"""Everything that the page of a gate shows, in a constant number of queries."""

from collections.abc import Mapping
from typing import Any

from django import forms

from gates import subjects
from gates.advice import advice_at
from gates.fields import Items
from gates.forms import AskForm, DelegateForm
from gates.models import Gate
from gates.policy import Policy, whom_text
from gates.protocols import GateProtocol, asks_agents, find_protocol, unknown_text
from gates.services import last_decision, may_answer
from gates.showing import arrange
from gates.states import GATE, GateState
from gates.tables import read_table
from jobs.agents.services import may_ask
from record.access import Ability, Actor, can
from record.errors import ConductorError
from record.forms import ReasonForm

FIELDS_BESIDE = 5  # more fields than these stand in the wide column
TABLES_SHOWN = 6
TABLE_ROWS = 60


def gate_page(
    gate: Gate, user: Actor, *, data: Mapping[str, Any] | None = None, refusal: ConductorError | None = None
) -> dict[str, Any]:
    """The context of gates/detail.html. `data` are posted answers, to be shown again; `refusal` is why they failed."""
    protocol = find_protocol(gate)
    barred = may_answer(gate, user)
    may_override = can(user, Ability.OVERRIDE, gate.lab_id)
    form = _form(gate, protocol, data, refusal)
    advice = advice_at(gate)
    for bound in form or ():
        if isinstance(bound.field, Items):
            bound.field.widget.advice = advice.by_item
    sections = arrange(gate.evidence.all(), gate.suggestion, gate.figures, also=advice.by_item)
    plain = [bound for bound in form or () if not isinstance(bound.field, Items)]
    context = {
        "gate": gate,
        "subject_url": subjects.url(gate),
        "protocol": protocol,
        "unknown": "" if protocol else unknown_text(gate),
        "intro": protocol.intro(gate) if protocol else "",
        "replaces": last_decision(gate),
        "form": form,
        "table_fields": [bound for bound in form or () if isinstance(bound.field, Items)],
        "plain_fields": plain,
        "wide": protocol is not None and protocol.template is None and len(plain) > FIELDS_BESIDE,
        "verdicts": protocol.verdicts_at(gate) if protocol else {},
        "consequence": _consequence(gate, protocol, form),
        "barred": barred,
        "may_answer": barred is None,
        "may_override": may_override and barred is not None and barred.code == "not_allowed",
        "sections": sections,
        "advice": advice,
        "seen": set(gate.decision.evidence.get("advice", {})) if gate.decision else None,
        "ask_form": _ask_form(gate, protocol, user),
        "items": [section for section in sections if section.item],
        "tables": _tables(sections),
        "answered": answers_shown(gate, form),
        "reason": (data or {}).get("reason", ""),
        "refusal": refusal,
        "ballots": list(gate.ballots.order_by("id")),
        "iterations": list(
            Gate.objects.filter(subject_uuid=gate.subject_uuid, key=gate.key)
            .select_related("decision__statement")
            .order_by("-iteration")
        ),
        "next": getattr(gate, "next", None),
        "rules": policy_text(gate),
    }
    return context | _actions(gate, user, context["may_answer"], may_override)


def policy_text(gate: Gate) -> list[str]:
    """Who may answer and by when, as sentences; the fault itself where the policy can't be read."""
    try:
        policy = Policy.read(gate.policy)
    except ConductorError as error:
        return [error.message]
    told = [f"For {whom_text(policy.who)}."]
    if policy.quorum > 1:
        told.append(f"{policy.quorum} people must give the same answer.")
    if not policy.requester_may and gate.requested_by:
        told.append(f"Not for {gate.requested_by.get_username()}, who started this.")
    if gate.delegated_to:
        told.append(f"Handed to {gate.delegated_to.get_username()}, who may answer too.")
    if gate.escalated_at:
        told.append(f"It waited long, so {whom_text(policy.escalate_to)} may answer too.")
    owed = {"always": "A reason is owed.", "on_difference": "A reason is owed where you differ from the suggestion."}
    return told + [owed[policy.reason]] if policy.reason in owed else told


def answers_shown(gate: Gate, form: forms.Form | None) -> list[tuple[str, Any, str]]:
    """(label, value, unit) of what the gate was answered with; struck answers are gone. Tables are left as mappings."""
    answers = gate.decision.statement.answers if gate.decision else {}
    fields = form.fields if form else {}
    return [
        (str(fields[name].label or name) if name in fields else name, value, getattr(fields.get(name), "unit", ""))
        for name, value in answers.items()
    ]


def _form(
    gate: Gate, protocol: GateProtocol | None, data: Mapping[str, Any] | None, refusal: ConductorError | None
) -> forms.Form | None:
    """The protocol's form: as posted, as decided, or as suggested."""
    if protocol is None:
        return None
    if data is not None:
        form = protocol.form(gate, data)
        for name, texts in (refusal.extra.get("errors", {}) if refusal else {}).items():
            if name in form.fields and name not in form.errors:
                form.add_error(name, texts)
        return form
    return protocol.form(gate)


def _ask_form(gate: Gate, protocol: GateProtocol | None, user: Actor) -> AskForm | None:
    """The choice of an agent to ask, where this person can ask any here now."""
    asks = protocol is not None and gate.state == GateState.OPEN and may_ask(user, gate.lab_id)
    return AskForm(lab_id=gate.lab_id) if protocol and asks and asks_agents(protocol) else None


def _consequence(gate: Gate, protocol: GateProtocol | None, form: forms.Form | None) -> str:
    """What approving would do: with the posted answers, else with the suggested ones; empty where they don't hold."""
    if protocol is None or form is None:
        return ""
    bound = form if form.is_bound else protocol.form(gate, gate.suggestion)
    return protocol.consequence(gate, protocol.answers(bound)) if bound.is_valid() else ""


def _tables(sections: list[Any]) -> dict[str, Any]:
    """evidence name -> table, for the first few; the others are linked."""
    pieces = [piece for section in sections for piece in section.tables][:TABLES_SHOWN]
    found: dict[str, Any] = {}
    for piece in pieces:
        try:
            found[piece.name] = read_table(piece, TABLE_ROWS)
        except ConductorError as error:
            found[piece.name] = {"error": error.message}
    return found


def _actions(gate: Gate, user: Actor, answers: bool, overrides: bool) -> dict[str, Any]:
    """What else this person may do here now; the services say no again to whoever tries all the same."""
    decides, operates = can(user, Ability.DECIDE, gate.lab_id), can(user, Ability.OPERATE, gate.lab_id)
    last = getattr(gate, "next", None) is None
    delegates = gate.state == GateState.OPEN and (answers or overrides)
    return {
        "delegate_form": DelegateForm(lab_id=gate.lab_id, but=user.get_username()) if delegates else None,
        "reopen_form": ReasonForm(auto_id="id_reopen_%s")
        if decides and last and (gate.is_ended or gate.state == GateState.APPLY_FAILED)
        else None,
        "withdraw_form": ReasonForm(auto_id="id_withdraw_%s")
        if (decides or operates) and GATE.allows(gate.state, "withdraw")
        else None,
        "may_prepare_again": (decides or operates) and gate.state == GateState.PREPARE_FAILED,
        "may_apply_again": (decides or operates) and gate.state == GateState.APPLY_FAILED,
    }
