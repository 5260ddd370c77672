"""The API of the record: labs, decisions, events. Only reading; what is decided comes in by commands elsewhere."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers

from record.kinds import KINDS
from record.models import Decision, Event, Lab, Membership
from record.rest import LabReadOnly, MomentFilter


class LabOutput(serializers.ModelSerializer[Lab]):
    roles = serializers.SerializerMethodField(help_text="the roles that you hold in this lab")

    class Meta:
        model = Lab
        fields = ["id", "slug", "name", "roles"]

    def get_roles(self, lab: Lab) -> list[str]:
        return [membership.role for membership in lab.mine]  # type: ignore[attr-defined]


class LabViewSet(LabReadOnly):
    """The labs that you are a member of."""

    queryset = Lab.objects.order_by("name")
    serializer_class = LabOutput
    lab_path = "pk"
    ordering_fields = ["name"]

    def get_queryset(self) -> QuerySet[Lab]:
        mine = Membership.objects.filter(user_id=self.request.user.pk or 0)
        return super().get_queryset().prefetch_related(Prefetch("memberships", mine, to_attr="mine"))


class DecisionOutput(serializers.ModelSerializer[Decision]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    actor = serializers.CharField(
        source="actor.username", default=None, allow_null=True, help_text="user name; null for a policy"
    )
    reason = serializers.CharField(source="statement.reason", default="")
    answers = serializers.JSONField(source="statement.answers", default=dict)
    struck = serializers.SerializerMethodField(help_text="whether what was written has been struck from the record")
    supersedes = serializers.SlugRelatedField[Decision](slug_field="uuid", read_only=True, allow_null=True)
    superseded_by = serializers.SlugRelatedField[Decision](slug_field="uuid", read_only=True, many=True)

    class Meta:
        model = Decision
        fields = [
            "uuid", "lab", "number", "at", "subject_kind", "subject_uuid", "subject_label", "gate_uuid", "iteration",
            "actor_kind", "actor", "actor_name", "door", "verdict", "reason", "answers", "struck", "evidence",
            "config_before", "config_after", "supersedes", "superseded_by", "override",
        ]  # fmt: skip

    def get_struck(self, decision: Decision) -> bool:
        statement = getattr(decision, "statement", None)
        return bool(statement and statement.struck_by_id)


class DecisionDetail(DecisionOutput):
    """With the text that the hash is over and its place in the chain."""

    class Meta(DecisionOutput.Meta):
        fields = [*DecisionOutput.Meta.fields, "previous_digest", "canonical", "digest"]


class DecisionFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    actor = filters.CharFilter(field_name="actor__username", label="user name")
    after = MomentFilter(field_name="at", lookup_expr="gte")
    before = MomentFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = Decision
        fields = ["subject_kind", "subject_uuid", "gate_uuid", "verdict", "actor_kind", "door", "override"]


class DecisionViewSet(LabReadOnly):
    """Who decided what, on which evidence, newest first."""

    queryset = (
        Decision.objects.select_related("lab", "actor", "statement", "supersedes")
        .prefetch_related("superseded_by")
        .order_by("-at", "-number")
    )
    serializer_class = DecisionOutput
    detail_class = DecisionDetail
    filterset_class = DecisionFilter
    lookup_field = "uuid"
    lookup_value_converter = "uuid"
    ordering_fields = ["at", "number"]


class EventOutput(serializers.ModelSerializer[Event]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    notable = serializers.SerializerMethodField(help_text="whether a person would want to hear of it")
    decision = serializers.SlugRelatedField[Decision](slug_field="uuid", read_only=True, allow_null=True)

    class Meta:
        model = Event
        fields = [
            "id", "lab", "at", "kind", "notable", "subject_kind", "subject_uuid", "root_uuid", "message", "data",
            "decision",
        ]  # fmt: skip

    def get_notable(self, event: Event) -> bool:
        return event.kind in KINDS and KINDS[event.kind].notable


class EventFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    run = filters.UUIDFilter(field_name="root_uuid", label="uuid of the run that it is part of")
    since = filters.NumberFilter(field_name="id", lookup_expr="gt", label="only events with a larger id")
    notable = filters.BooleanFilter(method="only_notable")

    class Meta:
        model = Event
        fields = ["kind", "subject_kind", "subject_uuid"]

    def only_notable(self, queryset: QuerySet[Event], name: str, value: bool) -> QuerySet[Event]:
        notable = [name for name, kind in KINDS.items() if kind.notable]
        return queryset.filter(kind__in=notable) if value else queryset.exclude(kind__in=notable)


class EventViewSet(LabReadOnly):
    """What happened, newest first."""

    queryset: QuerySet[Any] = Event.objects.select_related("lab", "decision").order_by("-id")
    serializer_class = EventOutput
    filterset_class = EventFilter
    ordering_fields = ["id"]
