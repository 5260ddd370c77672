"""The filter of the decisions list, and the reason that is asked for before something is done."""

from django import forms
from django.db.models import Q, QuerySet

from record.models import ActorKind, Decision

REASON_CHARS = 10_000


class DecisionFilter(forms.Form):
    """Words that all must occur somewhere in what was decided, by whom or why; the kind of actor; the verdict."""

    q = forms.CharField(label="Words", required=False, max_length=200)
    actor_kind = forms.ChoiceField(
        label="Decided by",
        required=False,
        choices=[
            ("", "anyone"),
            ("person", "a person"),
            ("agent", "an agent"),
            ("policy", "a policy"),
            ("imported", "imported"),
        ],
    )
    verdict = forms.CharField(label="Verdict", required=False, max_length=60)

    def narrow(self, decisions: QuerySet[Decision]) -> QuerySet[Decision]:
        """`decisions` cut down to what the form asks for; an invalid form cuts nothing."""
        if not self.is_valid():
            return decisions
        for word in self.cleaned_data["q"].split()[:8]:
            decisions = decisions.filter(
                Q(subject_label__icontains=word)
                | Q(actor_name__icontains=word)
                | Q(verdict__icontains=word)
                | Q(statement__reason__icontains=word)
            )
        if kind := self.cleaned_data["actor_kind"]:
            decisions = decisions.filter(actor_kind=ActorKind(kind))
        if verdict := self.cleaned_data["verdict"]:
            decisions = decisions.filter(verdict=verdict.strip().lower().replace(" ", "_"))
        return decisions


class ReasonForm(forms.Form):
    """Why something is done; whether it is owed is for the service to say."""

    reason = forms.CharField(
        label="Reason",
        required=False,
        max_length=REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": REASON_CHARS}),
    )


class OwedReasonForm(ReasonForm):
    """Why something is done, which must be said."""

    reason = forms.CharField(
        max_length=REASON_CHARS,
        widget=forms.Textarea(attrs={"rows": 3, "autofocus": True}),
        help_text="Kept in the record.",
    )
