"""What can be asked of a log, and how a target is set up."""

import os
from typing import Any

from django import forms

from jobs.environment import VARIABLE
from jobs.hosts import this_host
from jobs.models import Target, TargetKind
from jobs.shells import FORBIDDEN

PIECE_BYTES = 64 * 1024


class LogRequest(forms.Form):
    """Which of a job's two streams, and from which byte; without one, its end."""

    stream = forms.ChoiceField(choices=[("out", "output"), ("err", "errors")], required=False)
    start = forms.IntegerField(min_value=0, max_value=2**62, required=False)


class Lines(forms.CharField):
    """A list of texts, one a line; empty lines are left out."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 80})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (super().to_python(value) or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


def check_folder(path: str, *, what: str, here: bool = True) -> str:
    """An absolute folder without characters that a shell would take amiss, and `here` an existing one.

    ValidationError in words else.
    """
    if not os.path.isabs(path):
        raise forms.ValidationError(f"{what} {path!r} is not absolute: begin it with /.")
    if found := FORBIDDEN.search(path):
        raise forms.ValidationError(f"{what} {path!r} holds {found.group()!r}, which scripts would take amiss.")
    if os.path.normpath(path) != path.rstrip("/") or path == "/":
        raise forms.ValidationError(f"{what} {path!r}: give a folder below /, without '..', '.' or double slashes.")
    if here and not os.path.isdir(path):
        raise forms.ValidationError(f"{what} {path!r} is not an existing folder on this machine.")
    return path.rstrip("/")


class TargetForm(forms.ModelForm):
    roots = Lines(help_text="Absolute folders that runs may write in, one a line. They must exist.")
    environment_allow = Lines(
        required=False, help_text="Names of the server's own variables that jobs may see, one a line."
    )

    class Meta:
        model = Target
        fields = [
            "lab", "name", "kind", "host", "roots", "job_folder", "slots", "default_time_limit_s", "max_time_limit_s",
            "max_memory_mib", "umask", "group", "environment_lines", "environment_allow", "paused", "archived_at",
        ]  # fmt: skip
        labels = {
            "default_time_limit_s": "Default time limit (s)",
            "max_time_limit_s": "Longest time limit (s)",
            "max_memory_mib": "Most memory (MiB)",
        }
        help_texts = {"job_folder": "Absolute folder for the jobs' own files. It must exist; at a cluster it is made."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance.pk:
            self.initial.setdefault("host", this_host())

    def clean_host(self) -> str:
        if found := FORBIDDEN.search(self.cleaned_data["host"]):
            raise forms.ValidationError(f"It holds {found.group()!r}, which no host's name does.")
        return str(self.cleaned_data["host"])

    def clean_roots(self) -> list[str]:
        return list(
            dict.fromkeys(
                check_folder(path, what="The root", here=self._is_here()) for path in self.cleaned_data["roots"]
            )
        )

    def clean_job_folder(self) -> str:
        return check_folder(self.cleaned_data["job_folder"], what="The job folder", here=self._is_here())

    def _is_here(self) -> bool:
        """Whether its folders are to be on this machine; a cluster's are looked at by the check of the target."""
        return self.cleaned_data.get("kind") != TargetKind.SLURM

    def clean_environment_allow(self) -> list[str]:
        for name in self.cleaned_data["environment_allow"]:
            if not VARIABLE.fullmatch(name):
                raise forms.ValidationError(f"{name!r} is not the name of a variable.")
        return self.cleaned_data["environment_allow"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        default, longest = cleaned.get("default_time_limit_s"), cleaned.get("max_time_limit_s")
        if default and longest and default > longest:
            self.add_error("default_time_limit_s", f"It is above the longest, {longest} s.")
        return cleaned
