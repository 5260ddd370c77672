"""The admin of agents (set up here, as targets are: a command runs on the server) and asks (read here)."""

from django.contrib import admin

from jobs.agents.forms import AgentForm
from jobs.agents.models import Agent, Ask
from jobs.agents.services import switch_agent
from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReasonedAction, short
from record.services import Author


def _switch_off(agent: Agent, author: Author, reason: str) -> None:
    switch_agent(agent_id=agent.pk, author=author, on=False, reason=reason)


def _switch_on(agent: Agent, author: Author, reason: str) -> None:
    switch_agent(agent_id=agent.pk, author=author, on=True, reason=reason)


@admin.register(Agent)
class AgentAdmin(Editable):
    form = AgentForm
    list_display = ["name", "lab", "role", "backend", "family", "isolation", "off_since"]
    list_filter = ["backend", "family", "lab"]
    list_select_related = ["lab"]
    autocomplete_fields = ["lab", "target"]
    search_fields = ["name", "role", "family"]
    actions = [
        ReasonedAction("switch off", Ability.OVERRIDE, _switch_off, done="switched off"),
        ReasonedAction("switch on", Ability.OVERRIDE, _switch_on, done="switched on"),
    ]


@admin.register(Ask)
class AskAdmin(ReadOnly):
    list_display = ["id", "agent_name", "item", "state", "isolation", "created_at", "ended_at", "reason_shown"]
    list_filter = ["state", "backend", "family", "lab"]
    list_select_related = ["agent"]
    search_fields = ["agent_name", "item", "uuid", "subject_uuid", "root_uuid"]

    @admin.display(description="why")
    def reason_shown(self, ask: Ask) -> str:
        return short(ask.why or ask.reason)
