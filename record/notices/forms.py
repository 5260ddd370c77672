"""The forms of the pages about notices."""

import zoneinfo
from typing import Any

from django import forms

from record.kinds import KINDS, TOPICS
from record.models import Channel
from record.notices.models import DeliveryState
from record.notices.services import Wishes

_WHAT = {
    "gate": "Gates",
    "run": "Runs",
    "phase": "Phases",
    "series": "Tilt series",
    "job": "Jobs",
    "member": "Members",
    "account": "Accounts",
    "installation": "The installation",
}
_ALSO = {"cluster": "installation"}
TIME = forms.TimeInput(attrs={"type": "time"}, format="%H:%M")


def kind_choices() -> list[tuple[str, list[tuple[str, str]]]]:
    """The notable kinds of events under headings, in the order in which people ask for them."""
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in _WHAT}
    for name, kind in KINDS.items():
        if kind.notable:
            what = name.partition(".")[0]
            groups.setdefault(_ALSO.get(what, what), []).append((name, kind.label))
    return [(_WHAT.get(name, name), kinds) for name, kinds in groups.items() if kinds]


def _zones() -> list[tuple[str, str]]:
    return [
        (name, name.replace("_", " "))
        for name in sorted(zoneinfo.available_timezones())
        if "/" in name or name == "UTC"
    ]


class WishesForm(forms.Form):
    """What a person wants to hear, and when."""

    kinds = forms.MultipleChoiceField(
        label="Tell me of", required=False, choices=kind_choices, widget=forms.CheckboxSelectMultiple
    )
    digest = forms.ChoiceField(
        label="When",
        choices=[("", "at once"), ("1", "once a day, together")],
        required=False,
        widget=forms.RadioSelect,
    )
    digest_at = forms.TimeField(label="Once a day at", required=False, widget=TIME)
    quiet_from = forms.TimeField(label="Quiet from", required=False, widget=TIME)
    quiet_until = forms.TimeField(
        label="Quiet until", required=False, widget=TIME, help_text="What happens in between comes together afterwards."
    )
    time_zone = forms.ChoiceField(label="Time zone", choices=_zones)
    remind_after_h = forms.IntegerField(
        label="Remind me of gates that wait longer than",
        required=False,
        min_value=1,
        max_value=336,
        help_text="And again after as many more. Empty: never.",
    )
    remind_after_h.unit = "h"  # type: ignore[attr-defined]

    def wishes(self) -> Wishes:
        """What was filled in; a digest without a time comes at eight."""
        given: dict[str, Any] = dict(self.cleaned_data)
        given["digest"] = bool(given["digest"])
        given["digest_at"] = given["digest_at"] or Wishes().digest_at
        return Wishes(**given)


def grouped_boxes(form: WishesForm) -> list[tuple[str, list[Any]]]:
    """The boxes of `kinds` under their headings."""
    boxes = {str(box.data["value"]): box for box in form["kinds"]}
    return [(heading, [boxes[name] for name, _ in kinds]) for heading, kinds in kind_choices()]


class ChannelForm(forms.ModelForm):
    """A channel as administrators of a lab set it up; what it may be is for the service to say."""

    topics = forms.MultipleChoiceField(
        label="Topics",
        required=False,
        choices=[(name, f"{name}: {words}") for name, words in TOPICS.items()],
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = Channel
        fields = ["name", "kind", "address", "identity", "topics", "with_pictures", "enabled"]
        labels = {
            "identity": "Speaks as",
            "with_pictures": "Send small pictures of a gate's evidence along",
            "enabled": "Switched on",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["identity"].required = False
        self.fields["with_pictures"].help_text = ""

    def clean_identity(self) -> str:
        return self.cleaned_data["identity"] or "conductor"

    def _post_clean(self) -> None:
        """The row is filled and judged by the service, which also API and command line use."""


class DeliveryFilter(forms.Form):
    """Which notices are shown."""

    state = forms.ChoiceField(
        label="State", required=False, choices=[("", "any"), *[(each.value, each.label) for each in DeliveryState]]
    )
    channel = forms.CharField(label="Channel", required=False, max_length=40)

    def narrow(self, deliveries: Any) -> Any:
        """`deliveries` cut down to what the form asks for; an invalid form cuts nothing."""
        if not self.is_valid():
            return deliveries
        if state := self.cleaned_data["state"]:
            deliveries = deliveries.filter(state=state)
        if channel := self.cleaned_data["channel"].strip():
            deliveries = deliveries.filter(channel__name=channel)
        return deliveries
