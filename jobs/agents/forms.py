"""The forms of agents: set up in the admin, tried and switched on their pages."""

import json
from typing import Any

from django import forms

from jobs.agents import backends
from jobs.agents.models import Agent
from record.forms import ReasonForm


class AgentForm(forms.ModelForm):
    """Sets up an agent; what its backend can't use is refused at its field, in words."""

    class Meta:
        model = Agent
        fields = [
            "lab", "name", "role", "backend", "family", "configuration", "target", "isolation", "time_limit_s",
            "memory_mib", "at_once",
        ]  # fmt: skip
        labels = {"time_limit_s": "Time limit (s)", "memory_mib": "Memory (MiB)"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(key, f"{key}: {backends.backend_for(key).label}") for key in backends.names()]
        self.fields["backend"] = forms.ChoiceField(choices=choices)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        backend, target = cleaned.get("backend"), cleaned.get("target")
        if backend and "configuration" in cleaned:
            found = backends.backend_for(backend).faults(cleaned["configuration"])
            if found:
                self.add_error("configuration", "; ".join(found))
        if target and cleaned.get("lab") and target.lab_id != cleaned["lab"].pk:
            self.add_error("target", "This target belongs to another lab.")
        return cleaned


class TryForm(forms.Form):
    """A question of one's own, to see whether an agent answers."""

    question = forms.CharField(
        max_length=4000, widget=forms.Textarea(attrs={"rows": 3}), label="Ask it something",
        initial="Say in one sentence what you are.",
    )  # fmt: skip


class SwitchForm(ReasonForm):
    """Why an agent is switched off or on."""


def shown_configuration(agent: Agent) -> str:
    """An agent's configuration for people; secrets are only ever named in it."""
    return json.dumps(agent.configuration, indent=2, ensure_ascii=False)
