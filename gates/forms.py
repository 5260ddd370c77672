"""The forms of the gate pages that are not the protocols' own."""

from typing import Any

from django import forms
from django.contrib.auth.models import User

from jobs.agents.models import Agent
from record.access import Ability, roles_with
from record.forms import ReasonForm


class AskForm(forms.Form):
    """Which agent is asked."""

    agent = forms.ModelChoiceField(Agent.objects.none(), empty_label=None, label="Agent")

    def __init__(self, *args: Any, lab_id: int, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_ask_%s"} | kwargs)
        choice = self.fields["agent"]
        choice.queryset = Agent.objects.filter(lab_id=lab_id, off_since=None).order_by("name")  # type: ignore[attr-defined]
        choice.label_from_instance = lambda agent: f"{agent.name}: {agent.role} ({agent.family})"  # type: ignore[attr-defined]

    @property
    def agents(self) -> list[Any]:
        """The choices, in one query."""
        return list(self.fields["agent"].choices)  # type: ignore[attr-defined]


class DelegateForm(ReasonForm):
    """Whom to ask instead, and why. Only people who may decide in the gate's lab are offered."""

    to_username = forms.ChoiceField(label="Hand it to")

    field_order = ["to_username", "reason"]

    def __init__(self, *args: Any, lab_id: int, but: str, **kwargs: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_delegate_%s"} | kwargs)  # the answer's own reason is on the page too
        people = (
            User.objects.filter(
                is_active=True,
                agent_account=None,
                memberships__lab_id=lab_id,
                memberships__role__in=roles_with(Ability.DECIDE),
            )
            .exclude(username=but)
            .distinct()
            .order_by("username")
        )
        names = [(each.get_username(), each.get_full_name() or each.get_username()) for each in people]
        self.fields["to_username"].choices = names  # type: ignore[attr-defined]

    @property
    def has_people(self) -> bool:
        return bool(self.fields["to_username"].choices)  # type: ignore[attr-defined]
