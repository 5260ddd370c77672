"""The API of gates and their evidence."""

from django_filters import rest_framework as filters
from rest_framework import serializers

from gates.models import Ballot, Evidence, Gate
from record.models import Decision, Lab
from record.rest import LabReadOnly


class EvidenceOutput(serializers.ModelSerializer[Evidence]):
    gate = serializers.PrimaryKeyRelatedField[Gate](read_only=True)

    class Meta:
        model = Evidence
        fields = [
            "uuid", "gate", "name", "kind", "title", "caption", "group", "index", "item", "media_type", "sha256",
            "size_bytes",
        ]  # fmt: skip


class BallotOutput(serializers.ModelSerializer[Ballot]):
    class Meta:
        model = Ballot
        fields = ["voter_name", "door", "verdict", "answers", "reason", "digest", "at"]


class GateOutput(serializers.ModelSerializer[Gate]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", default=None)
    delegated_to = serializers.CharField(source="delegated_to.username", default=None)
    decision = serializers.SlugRelatedField[Decision](slug_field="uuid", read_only=True)

    class Meta:
        model = Gate
        fields = [
            "id", "uuid", "lab", "key", "protocol", "title", "context", "iteration", "state", "subject_kind",
            "subject_uuid", "root_uuid", "requested_by", "delegated_to", "requested_at", "opened_at", "due_at",
            "escalates_at", "escalated_at", "ended_at", "decision", "error",
        ]  # fmt: skip


class GateDetail(GateOutput):
    """With what a person needs to answer it."""

    evidence = EvidenceOutput(many=True, read_only=True)
    ballots = BallotOutput(many=True, read_only=True)
    previous = serializers.PrimaryKeyRelatedField[Gate](read_only=True)

    class Meta(GateOutput.Meta):
        fields = [
            *GateOutput.Meta.fields, "previous", "policy", "suggestion", "figures", "notes", "digest", "evidence",
            "ballots",
        ]  # fmt: skip


class GateFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    run = filters.UUIDFilter(field_name="root_uuid", label="uuid of the run that it is part of")

    class Meta:
        model = Gate
        fields = ["state", "key", "protocol", "subject_kind", "subject_uuid", "iteration"]


class GateViewSet(LabReadOnly):
    """Questions to people, newest first; one row an iteration."""

    queryset = Gate.objects.select_related("lab", "requested_by", "delegated_to", "decision").order_by("-id")
    serializer_class = GateOutput
    detail_class = GateDetail
    filterset_class = GateFilter
    ordering_fields = ["id", "opened_at", "due_at"]


class EvidenceFilter(filters.FilterSet):
    class Meta:
        model = Evidence
        fields = ["gate", "kind", "item", "group", "name"]


class EvidenceViewSet(LabReadOnly):
    """What was shown at gates."""

    queryset = Evidence.objects.order_by("gate_id", "name")
    serializer_class = EvidenceOutput
    filterset_class = EvidenceFilter
    lab_path = "gate__lab"
    lookup_field = "uuid"
    lookup_value_converter = "uuid"
    ordering_fields = ["name"]
