"""The forms of the run pages."""

from django import forms
from django.db.models import Q, QuerySet

from runs.models import Run
from runs.states import RunState


class RunFilter(forms.Form):
    """Part of a run's name or folder; its state; archived ones only on demand."""

    q = forms.CharField(label="Name or folder", required=False, max_length=120)
    state = forms.ChoiceField(label="State", required=False, choices=[("", "any"), *RunState.choices])
    archived = forms.BooleanField(label="archived ones too", required=False)

    def narrow(self, runs: QuerySet[Run]) -> QuerySet[Run]:
        """`runs` cut down to what the form asks for."""
        asked = self.cleaned_data if self.is_valid() else {}
        if not asked.get("archived"):
            runs = runs.filter(archived_at=None)
        if asked.get("state"):
            runs = runs.filter(state=asked["state"])
        if words := asked.get("q"):
            runs = runs.filter(Q(name__icontains=words) | Q(work_dir__icontains=words))
        return runs
