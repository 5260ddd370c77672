"""What can be asked of a log."""

from django import forms

PIECE_BYTES = 64 * 1024


class LogRequest(forms.Form):
    """Which of a job's two streams, and from which byte; without one, its end."""

    stream = forms.ChoiceField(choices=[("out", "output"), ("err", "errors")], required=False)
    start = forms.IntegerField(min_value=0, max_value=2**62, required=False)
