"""The API of agents and of what they were asked."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.urls import path
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.agents import store
from jobs.agents.models import Agent, Ask
from jobs.agents.services import switch_agent
from jobs.agents.trying import try_agent
from record.access import Ability
from record.models import Lab
from record.rest import AnyAccept, Command, LabReadOnly, ReasonInput, RefusalOutput, StrictSerializer, author_of, holds
from record.services import Author


class AgentOutput(serializers.ModelSerializer[Agent]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)

    class Meta:
        model = Agent
        fields = [
            "id", "uuid", "lab", "name", "role", "backend", "family", "isolation", "time_limit_s", "at_once",
            "off_since",
        ]  # fmt: skip


class AskOutput(serializers.ModelSerializer[Ask]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    agent = serializers.PrimaryKeyRelatedField[Agent](read_only=True)
    result = serializers.JSONField(read_only=True, help_text="the answer as it was read; null unless the outcome is ok")

    class Meta:
        model = Ask
        fields = [
            "id", "uuid", "lab", "agent", "agent_name", "family", "backend", "state", "item", "subject_kind",
            "subject_uuid", "root_uuid", "isolation", "is_isolated", "why", "result", "model_name", "tokens_in",
            "tokens_out", "cost_usd", "created_at", "begun_at", "ended_at", "digest",
        ]  # fmt: skip


class AskDetail(AskOutput):
    """With what was put, and what is known of the output."""

    result_schema = serializers.JSONField(read_only=True)
    attachments = serializers.SerializerMethodField(
        help_text="names of the pictures that went along, with their SHA-256"
    )

    class Meta(AskOutput.Meta):
        fields = [
            *AskOutput.Meta.fields, "asked_by_name", "template", "template_version", "prompt", "result_schema",
            "attachments", "raw_sha256", "raw_bytes", "raw_cut",
        ]  # fmt: skip

    def get_attachments(self, ask: Ask) -> dict[str, str]:
        return {each["name"]: each["sha256"] for each in ask.attachments}


class AgentFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")

    class Meta:
        model = Agent
        fields = ["name", "backend", "family"]


class AgentViewSet(LabReadOnly):
    """Who can be asked."""

    queryset = Agent.objects.select_related("lab").order_by("id")
    serializer_class = AgentOutput
    filterset_class = AgentFilter
    ordering_fields = ["id", "name"]


class AskFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    run = filters.UUIDFilter(field_name="root_uuid", label="uuid of the run that it is part of")

    class Meta:
        model = Ask
        fields = ["agent", "state", "item", "subject_kind", "subject_uuid"]


class AskViewSet(LabReadOnly):
    """What agents were asked, newest first. An answer is advice: data that somebody may read, never a verdict."""

    queryset = Ask.objects.select_related("lab", "agent").order_by("-id")
    serializer_class = AskOutput
    detail_class = AskDetail
    filterset_class = AskFilter
    lookup_field = "uuid"
    lookup_value_converter = "uuid"
    ordering_fields = ["id", "ended_at"]

    @extend_schema(responses={(200, "text/plain"): OpenApiTypes.STR, 410: RefusalOutput})
    @action(detail=True, content_negotiation_class=AnyAccept, pagination_class=None, filter_backends=())
    def raw(self, request: Request, uuid: UUID) -> HttpResponse:
        """What the agent wrote, as it is kept: redacted, at most 5 MiB, as plain text."""
        ask: Any = self.get_object()
        etag = f'"{ask.raw_sha256 or "nothing"}"'
        kept = {"ETag": etag, "Cache-Control": "private, no-cache"}
        if holds(request, etag):
            return HttpResponse(status=304, headers=kept)
        response = HttpResponse(store.read(ask.raw_sha256) if ask.raw_sha256 else b"", headers=kept)
        response.headers["Content-Type"] = "text/plain; charset=utf-8"
        response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Content-Disposition"] = "attachment"
        return response


class TryInput(StrictSerializer):
    question = serializers.CharField(max_length=4000, help_text="what to ask it")


class Try(Command):
    """Ask an agent a question of your own; the ask, in which its answer will stand."""

    queryset = AgentViewSet.queryset
    ability = Ability.OVERRIDE
    input_class = TryInput
    output_class = AskOutput
    scope = "decide"
    operation = "agents_try"
    success = 201

    def respond(self, request: Request, pk: int) -> Response:
        agent = self.find(request, pk)
        return self.show(try_agent(agent=agent, author=author_of(request), **self.given(request, agent)))


class SwitchInput(ReasonInput):
    on = serializers.BooleanField(help_text="false: nothing more is put to it, and what waits is withdrawn")


class Switch(Command):
    """Switch an agent off, or on again."""

    queryset = AgentViewSet.queryset
    ability = Ability.OVERRIDE
    input_class = SwitchInput
    output_class = AgentOutput
    scope = "decide"
    operation = "agents_switch"

    def carry_out(self, found: Agent, author: Author, **given: Any) -> None:
        switch_agent(agent_id=found.pk, author=author, **given)


commands = [
    path("agents/<int:pk>/try/", Try.as_view(), name="agent-try"),
    path("agents/<int:pk>/switch/", Switch.as_view(), name="agent-switch"),
]
