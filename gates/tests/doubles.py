"""A protocol and a keeper for tests: they remember what they were called with, and fail when told to."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django import forms
from django.contrib.auth.models import User

from gates.fields import Number
from gates.models import Gate
from gates.protocols import Defaults, Preparation
from gates.services import Answer, answer_gate, request_gate
from gates.subjects import Renewal
from record.errors import AdapterError
from record.models import Decision, Door, Lab
from record.services import Author, Subject


class ThresholdForm(forms.Form):
    threshold = Number(unit="Å", min_value=0, max_value=10)
    remark = forms.CharField(required=False)


class Threshold(Defaults):
    """Asks for a threshold, suggests 2.5 Å; `persisted` is what was written back, in order."""

    key, title = "threshold", "Threshold"

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.persisted: list[tuple[str, str]] = []
        self.failures = 0
        self.preparation: Preparation | None = None
        self.suggestion: dict[str, Any] | Exception = {"threshold": 2.5}

    def plan(self, gate: Gate) -> Preparation | None:
        return self.preparation

    def suggest(self, gate: Gate, figures: dict[str, Any]) -> dict[str, Any]:
        if isinstance(self.suggestion, Exception):
            raise self.suggestion
        return self.suggestion

    def form(self, gate: Gate, data: Mapping[str, Any] | None = None) -> forms.Form:
        return ThresholdForm(data, initial=gate.suggestion)

    def persist(self, gate: Gate, decision: Decision) -> None:
        if self.failures:
            self.failures -= 1
            raise AdapterError("/data/run1/pipeline.conf can't be written: the disk is full.", transient=True)
        self.persisted.append((str(decision.uuid), decision.verdict))


class Keeper:
    """Remembers what became of gates; `failures` of its next calls to `applied` raise."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.failures = 0
        self.fresh: Renewal | None = None

    def applied(self, gate: Gate, decision: Decision) -> None:
        self.calls.append(("applied", gate.pk))
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the phase could not go on")

    def closed(self, gate: Gate) -> None:
        self.calls.append(("closed", gate.pk))

    def reopened(self, gate: Gate) -> None:
        self.calls.append(("reopened", gate.pk))

    def renewal(self, gate: Gate) -> Renewal | None:
        return self.fresh

    def url(self, gate: Gate) -> str:
        return f"/things/{gate.subject_uuid}/"

    def describe(self, gate: Gate) -> str:
        return f"thing of {gate.context}"


THRESHOLD = Threshold()
KEEPER = Keeper()


def ask(
    lab: Lab,
    *,
    policy: dict[str, Any] | None = None,
    requested_by: User | None = None,
    protocol: str = "threshold",
    options: dict[str, Any] | None = None,
    key: str = "threshold",
    subject: Subject | None = None,
) -> Gate:
    """A gate about a new thing; open at once unless the protocol has evidence to make."""
    return request_gate(
        lab_id=lab.pk,
        subject=subject or Subject("thing", uuid4(), "thing one", uuid4()),
        key=key,
        protocol=protocol,
        title="Choose the threshold",
        context="run one, phase picks",
        options=options or {},
        policy=policy or {},
        requested_by=requested_by,
    )


def answer(gate: Gate, user: User, verdict: str = "approve", **given: Any) -> Answer:
    """Answer as `user` through the web's door; agrees with the suggestion unless told otherwise."""
    defaults: dict[str, Any] = {
        "answers": {"threshold": 2.5},
        "seen_digest": Gate.objects.get(pk=gate.pk).digest,
        "author": Author.person(user, Door.WEB),
    }
    return answer_gate(gate_id=gate.pk, verdict=verdict, **(defaults | given))
