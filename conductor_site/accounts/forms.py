"""What is typed about accounts: invitations, roles, agents, tokens, passwords."""

from typing import Any

from django import forms

from conductor_site.api.tokens import DEFAULT_SCOPES, LONGEST_LIFE_H
from record.access import ABILITIES, SCOPE_ABILITIES, Role, Scope
from record.forms import REASON_CHARS
from record.members import AGENT_ROLES

DAY_H = 24
ROLE_WORDS = {
    Role.VIEWER: "viewer: sees the lab's runs, gates and decisions",
    Role.OPERATOR: "operator: also starts, pauses, retries and configures",
    Role.REVIEWER: "reviewer: also answers gates",
    Role.ADMINISTRATOR: "administrator: all of it, overrules with a reason, and manages members",
}
SCOPE_WORDS = {
    Scope.READ: "read: see what you see",
    Scope.OPERATE: "operate: also start, pause, retry and configure",
    Scope.DECIDE: "decide: also answer gates",
    Scope.WALK: "walk: also take plans of a walk and report on them",
    Scope.HEARTBEAT: "heartbeat: only say that a worker is alive",
}
assert set(ROLE_WORDS) == set(ABILITIES) and set(SCOPE_WORDS) == set(SCOPE_ABILITIES)  # noqa: S101 - a table's check

ROLE_CHOICES = [(role.value, ROLE_WORDS[role]) for role in Role]
AGENT_ROLE_CHOICES = [(role.value, ROLE_WORDS[role]) for role in Role if role in AGENT_ROLES]
SCOPE_CHOICES = [(scope.value, SCOPE_WORDS[scope]) for scope in Scope]


class Days(forms.IntegerField):
    """A number of days, with its unit beside it."""

    unit = "days"

    def __init__(self, *, initial: int, most: int, label: str) -> None:
        super().__init__(label=label, initial=initial, min_value=1, max_value=most)


class InviteForm(forms.Form):
    """Whom to invite, and as what."""

    note = forms.CharField(
        label="For whom", required=False, max_length=120, help_text="So that you know it again; nothing is sent."
    )
    role = forms.ChoiceField(label="Role", choices=ROLE_CHOICES, initial=Role.VIEWER)
    life_d = Days(label="Good for", initial=7, most=30)


class AddForm(forms.Form):
    """Somebody who has an account here already."""

    username = forms.CharField(label="User name", max_length=150)
    role = forms.ChoiceField(label="Role", choices=ROLE_CHOICES, initial=Role.VIEWER)


class RolesForm(forms.Form):
    """All roles of one member; none of them: no member any more. `without` are roles that nobody would have then."""

    roles = forms.MultipleChoiceField(
        label="Roles", choices=ROLE_CHOICES, required=False, widget=forms.CheckboxSelectMultiple
    )
    reason = forms.CharField(
        label="Reason",
        required=False,
        max_length=REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 2, "maxlength": REASON_CHARS}),
        help_text="Kept in the record under your name.",
    )
    confirmed = forms.BooleanField(required=False)

    def __init__(self, *args: Any, without: str = "", agent: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if agent:
            self.fields["roles"].choices = AGENT_ROLE_CHOICES  # type: ignore[attr-defined]
        self.fields["confirmed"].label = f"Yes, the lab is to have no {without}"
        if not without:
            del self.fields["confirmed"]


class AgentForm(forms.Form):
    """A new agent."""

    name = forms.CharField(label="Name", max_length=60, help_text="Shown with “(agent)” wherever it does anything.")
    roles = forms.MultipleChoiceField(
        label="Roles",
        choices=AGENT_ROLE_CHOICES,
        initial=[Role.VIEWER],
        widget=forms.CheckboxSelectMultiple,
        help_text="As a reviewer it answers only gates whose policy lets agents.",
    )


class TokenForm(forms.Form):
    """A new token."""

    name = forms.CharField(label="Name", max_length=80, help_text="What it is for.")
    scopes = forms.MultipleChoiceField(
        label="It may", choices=SCOPE_CHOICES, initial=list(DEFAULT_SCOPES[:1]), widget=forms.CheckboxSelectMultiple
    )
    life_d = Days(label="Good for", initial=30, most=LONGEST_LIFE_H // DAY_H)


class ForgottenForm(forms.Form):
    """Whose password it is."""

    name = forms.CharField(
        label="User name or e-mail address",
        max_length=254,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}),
    )


class TwicePassword(forms.Form):
    """A new password, typed twice."""

    new_password1 = forms.CharField(
        label="New password",
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Ten characters or more, not only digits, and nothing that many people use.",
    )
    new_password2 = forms.CharField(
        label="The same again",
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("new_password1") != given.get("new_password2"):
            self.add_error("new_password2", "The two passwords are not the same.")
        return given


class ChangePasswordForm(TwicePassword):
    """The old password, and a new one."""

    old_password = forms.CharField(
        label="Password now",
        strip=False,
        max_length=4096,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )
    field_order = ["old_password", "new_password1", "new_password2"]


class JoinForm(TwicePassword):
    """A new account."""

    username = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )
    first_name = forms.CharField(label="First name", required=False, max_length=150)
    last_name = forms.CharField(label="Last name", required=False, max_length=150)
    email = forms.EmailField(label="E-mail", required=False, max_length=254)
    field_order = ["username", "first_name", "last_name", "email", "new_password1", "new_password2"]
