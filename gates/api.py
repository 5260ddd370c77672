"""The API of gates and their evidence: what is asked, what is shown, and the answers."""

from io import BytesIO
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from django.urls import path
from django.utils.http import content_disposition_header
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from gates import services
from gates.advice import Advice, advice_at
from gates.describe import describe_form
from gates.errors import TooLarge
from gates.inbox import waiting_for
from gates.models import Ballot, Evidence, Gate, Suggestion
from gates.protocols import find_protocol
from gates.services import may_answer
from gates.services.adding import KINDS
from gates.store import CSV, JPEG, JSON_TYPE, MAX_PIECE_BYTES, PNG, TEXT, TSV, Incoming, read_evidence
from gates.transfer import OutOfRange, stated_sha256, wanted_range
from jobs.agents.api import AskOutput
from record.models import Decision, Lab
from record.rest import (
    AnyAccept,
    Command,
    LabReadOnly,
    NoInput,
    RawBody,
    RefusalOutput,
    StrictSerializer,
    author_of,
    drain,
    holds,
)
from record.services import Author

CHUNK_BYTES = 64 * 1024
_SUFFIXES = {PNG: ".png", JPEG: ".jpg", TSV: ".tsv", CSV: ".csv", TEXT: ".txt", JSON_TYPE: ".json"}


class EvidenceOutput(serializers.ModelSerializer[Evidence]):
    gate = serializers.PrimaryKeyRelatedField[Gate](read_only=True)

    class Meta:
        model = Evidence
        fields = [
            "uuid", "gate", "name", "kind", "title", "caption", "group", "index", "item", "media_type", "sha256",
            "size_bytes", "added_by_name", "added_at",
        ]  # fmt: skip


class BallotOutput(serializers.ModelSerializer[Ballot]):
    class Meta:
        model = Ballot
        fields = ["voter_name", "voter_kind", "door", "verdict", "answers", "reason", "digest", "at", "replaced_at"]


class SuggestionOutput(serializers.ModelSerializer[Suggestion]):
    author = serializers.CharField(source="author.username")

    class Meta:
        model = Suggestion
        fields = ["uuid", "author", "author_name", "verdict", "answers", "reason", "digest", "at", "replaced_at"]


class GateOutput(serializers.ModelSerializer[Gate]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", default=None, allow_null=True)
    delegated_to = serializers.CharField(source="delegated_to.username", default=None, allow_null=True)
    decision = serializers.SlugRelatedField[Decision](slug_field="uuid", read_only=True, allow_null=True)

    class Meta:
        model = Gate
        fields = [
            "id", "uuid", "lab", "key", "protocol", "title", "context", "iteration", "state", "subject_kind",
            "subject_uuid", "root_uuid", "requested_by", "delegated_to", "requested_at", "opened_at", "due_at",
            "escalates_at", "escalated_at", "ended_at", "decision", "error",
        ]  # fmt: skip


class VerdictOutput(serializers.Serializer[Any]):
    verdict = serializers.CharField(help_text="what to send")
    label = serializers.CharField()  # type: ignore[assignment]
    consequence = serializers.CharField()
    needs_reason = serializers.BooleanField()
    needs_answers = serializers.BooleanField(help_text="whether the form must be filled in whole")


class FieldOutput(serializers.Serializer[Any]):
    """A field of the gate's form; beside these, what belongs to its kind."""

    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=["text", "number", "choice", "many", "yes_no", "items"])
    label = serializers.CharField()  # type: ignore[assignment]
    help = serializers.CharField()
    required = serializers.BooleanField()  # type: ignore[assignment]
    initial = serializers.JSONField(help_text="what is suggested, or null")
    unit = serializers.CharField(required=False, help_text="of a number")
    min = serializers.FloatField(required=False, allow_null=True)
    max = serializers.FloatField(required=False, allow_null=True)
    whole = serializers.BooleanField(required=False)
    max_length = serializers.IntegerField(required=False, allow_null=True)
    choices = serializers.DictField(child=serializers.CharField(), required=False, help_text="value -> label")
    items = serializers.ListField(child=serializers.CharField(), required=False)
    verdicts = serializers.DictField(child=serializers.CharField(), required=False, help_text="value -> label")
    keep = serializers.BooleanField(required=False)
    note = serializers.BooleanField(required=False)


class MayAnswerOutput(serializers.Serializer[Any]):
    allowed = serializers.BooleanField()
    code = serializers.CharField(help_text="why not, for programs; empty if allowed")
    message = serializers.CharField(help_text="why not, in words; empty if allowed")


class GateDetail(GateOutput):
    """With what a person needs to answer it."""

    _shown: tuple[int, Advice] | None = None

    evidence = EvidenceOutput(many=True, read_only=True)
    advice = serializers.SerializerMethodField(
        help_text="what agents were asked here; each one's newest answer an item"
    )
    ballots = BallotOutput(many=True, read_only=True)
    suggestions = serializers.SerializerMethodField(help_text="what agents would answer; counted nowhere")
    previous = serializers.PrimaryKeyRelatedField[Gate](read_only=True, allow_null=True)
    next = serializers.SerializerMethodField(help_text="the iteration after this one, if it was reopened")
    intro = serializers.SerializerMethodField(help_text="what to look at, in words; mostly empty")
    replaces = serializers.SerializerMethodField(
        help_text="uuid of the earlier decision that an answer replaces (a reason is owed); null where there is none"
    )
    may_answer = serializers.SerializerMethodField(help_text="whether you may answer it now")
    verdicts = serializers.SerializerMethodField(help_text="what can be said; empty without its protocol")
    takes_additions = serializers.SerializerMethodField(help_text="whether evidence may be added to what it shows")
    form = serializers.SerializerMethodField(help_text="what is asked with the answer; null without its protocol")

    class Meta(GateOutput.Meta):
        fields = [
            *GateOutput.Meta.fields, "previous", "next", "policy", "suggestion", "figures", "notes", "digest",
            "intro", "replaces", "may_answer", "verdicts", "takes_additions", "form", "evidence",
            "advice", "ballots", "suggestions",
        ]  # fmt: skip

    @extend_schema_field(AskOutput(many=True))
    def get_advice(self, gate: Gate) -> Any:
        shown = [ask for asks in self._advice(gate).by_item.values() for ask in asks]
        return AskOutput(shown, many=True, context=self.context).data

    @extend_schema_field(SuggestionOutput(many=True))
    def get_suggestions(self, gate: Gate) -> Any:
        return SuggestionOutput(self._advice(gate).suggestions, many=True, context=self.context).data

    def _advice(self, gate: Gate) -> Advice:
        if self._shown is None or self._shown[0] != gate.pk:
            self._shown = (gate.pk, advice_at(gate))
        return self._shown[1]

    def get_next(self, gate: Gate) -> int | None:
        return gate.next.pk if hasattr(gate, "next") else None

    def get_intro(self, gate: Gate) -> str:
        protocol = find_protocol(gate)
        return protocol.intro(gate) if protocol else ""

    def get_replaces(self, gate: Gate) -> UUID | None:
        earlier = services.last_decision(gate)
        return earlier.uuid if earlier else None

    def get_takes_additions(self, gate: Gate) -> bool:
        protocol = find_protocol(gate)
        return protocol is not None and protocol.takes_additions(gate)

    @extend_schema_field(MayAnswerOutput)
    def get_may_answer(self, gate: Gate) -> dict[str, Any]:
        refusal = may_answer(gate, self.context["request"].user)
        if refusal is None:
            return {"allowed": True, "code": "", "message": ""}
        return {"allowed": False, "code": refusal.code, "message": refusal.message}

    @extend_schema_field(VerdictOutput(many=True))
    def get_verdicts(self, gate: Gate) -> list[dict[str, Any]]:
        protocol = find_protocol(gate)
        said = protocol.verdicts_at(gate) if protocol else {}
        return [
            {
                "verdict": key,
                "label": verdict.label,
                "consequence": verdict.consequence,
                "needs_reason": verdict.needs_reason,
                "needs_answers": verdict.needs_answers,
            }
            for key, verdict in said.items()
        ]

    @extend_schema_field(FieldOutput(many=True, allow_null=True))
    def get_form(self, gate: Gate) -> list[dict[str, Any]] | None:
        protocol = find_protocol(gate)
        return describe_form(protocol.form(gate)) if protocol else None


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

    @extend_schema(operation_id="gates_waiting", responses=GateOutput(many=True), filters=False)
    @action(detail=False, pagination_class=None, filter_backends=())
    def waiting(self, request: Request) -> Response:
        """The gates that you may answer now and have not answered yet, the longest waiting first; not paginated."""
        return Response(GateOutput(waiting_for(request.user), many=True, context={"request": request}).data)


def _header(name: str, description: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, OpenApiParameter.HEADER, description=description)


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

    @extend_schema(
        parameters=[
            _header("Range", "one range of bytes"),
            _header("If-Range", "ETag of the file that the range is of"),
            _header("If-None-Match", "ETag of the file that you have"),
        ],
        responses={
            **{(200, media_type): OpenApiTypes.BINARY for media_type in _SUFFIXES},
            **{(206, media_type): OpenApiTypes.BINARY for media_type in _SUFFIXES},
            304: None,
            410: RefusalOutput,
            416: RefusalOutput,
            502: RefusalOutput,
        },
    )
    @action(detail=True, content_negotiation_class=AnyAccept, pagination_class=None, filter_backends=())
    def file(self, request: Request, uuid: UUID) -> HttpResponse:
        """The bytes that were shown, checked against their SHA-256; never as something that a browser would run."""
        piece = self.get_object()
        etag = f'"{piece.sha256}"'
        response = HttpResponse(status=304) if holds(request, etag) else _file_response(request, piece, etag)
        for name, value in _sealed(piece, etag).items():
            response.headers[name] = value
        return response

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        if isinstance(exc, OutOfRange):
            response.headers["Content-Range"] = f"bytes */{exc.extra['size']}"
        return response


def _file_response(request: Request, piece: Evidence, etag: str) -> HttpResponse:
    """The file, or the part of it that is asked for, unless that is said to be of another file."""
    data = read_evidence(piece)
    same = request.headers.get("If-Range", etag) == etag
    wanted = wanted_range(request.headers.get("Range", ""), len(data)) if same else None
    if wanted is None:
        return HttpResponse(data)
    part = f"bytes {wanted.start}-{wanted.stop - 1}/{len(data)}"
    return HttpResponse(data[wanted.start : wanted.stop], status=206, headers={"Content-Range": part})


def _sealed(piece: Evidence, etag: str) -> dict[str, str]:
    charset = "; charset=utf-8" if piece.media_type.startswith("text/") else ""
    return {
        "Content-Type": f"{piece.media_type}{charset}",
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=86400",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": content_disposition_header(True, _file_name(piece)) or "attachment",
    }


def _file_name(piece: Evidence) -> str:
    """Its whole name in one word, with the ending of its kind: slices/TS_001/central -> slices_TS_001_central.png."""
    suffix = _SUFFIXES.get(piece.media_type, "")
    return piece.name.removesuffix(suffix).replace("/", "_") + suffix


class DecideInput(StrictSerializer):
    """An answer, bound to what was seen."""

    verdict = serializers.CharField(max_length=60)
    answers = serializers.DictField(default=dict, help_text="values of the gate's form, by the names of its fields")
    reason = serializers.CharField(max_length=10_000, allow_blank=True, default="")
    digest = serializers.CharField(max_length=64, help_text="the gate's digest, as it was shown with the evidence")
    seen_advice = serializers.ListField(
        child=serializers.UUIDField(), default=list, max_length=5000,
        help_text="uuids of the asks and suggestions that were shown with the evidence; kept with the decision",
    )  # fmt: skip
    override = serializers.BooleanField(
        default=False, help_text="as administrator, decide in spite of the policy; owes a reason"
    )


class DecideOutput(serializers.Serializer[Any]):
    message = serializers.CharField(help_text="what became of the answer, in words")
    decision = serializers.UUIDField(allow_null=True, help_text="null while more answers are needed")
    gate = GateOutput()


class GateCommand(Command):
    """The gates' services ask the policy themselves; here only what is not the person's to see is hidden."""

    queryset = GateViewSet.queryset
    output_class: ClassVar[type[BaseSerializer[Any]]] = GateOutput


class Decide(GateCommand):
    """Answer a gate. The first answer that is committed wins; the others are told whose it was (409)."""

    input_class = DecideInput
    output_class = DecideOutput
    scope = "decide"
    operation = "gates_decide"

    def respond(self, request: Request, pk: int) -> Response:
        given = self.given(request, self.find(request, pk))
        digest = given.pop("digest")
        answer = services.answer_gate(gate_id=pk, author=author_of(request), seen_digest=digest, **given)
        decision = answer.decision.uuid if answer.decision else None
        return self.show({"message": answer.message, "decision": decision, "gate": self.queryset.get(pk=pk)})


class SuggestInput(StrictSerializer):
    """What an agent would answer, bound to what it read."""

    verdict = serializers.CharField(max_length=60)
    answers = serializers.DictField(default=dict, help_text="values of the gate's form, by the names of its fields")
    reason = serializers.CharField(max_length=10_000, help_text="what the suggestion rests on")
    digest = serializers.CharField(max_length=64, help_text="the gate's digest, as it was shown with the evidence")


class Suggest(GateCommand):
    """Say, as an agent, what you would answer. It is shown to the people who decide, and counted nowhere."""

    input_class = SuggestInput
    output_class = SuggestionOutput
    operation = "gates_suggest"
    scope = "decide"
    success = 201

    def respond(self, request: Request, pk: int) -> Response:
        given = self.given(request, self.find(request, pk))
        digest = given.pop("digest")
        return self.show(services.suggest_answer(gate_id=pk, author=author_of(request), seen_digest=digest, **given))


class ConsequenceInput(StrictSerializer):
    answers = serializers.DictField(default=dict, help_text="values of the gate's form, by the names of its fields")


class ConsequenceOutput(serializers.Serializer[Any]):
    consequence = serializers.CharField(help_text="what approving these answers would do; empty: what its verdict says")
    differing = serializers.ListField(
        child=serializers.CharField(), help_text="names of the fields that depart from what is suggested"
    )


class Consequence(GateCommand):
    """What approving these answers would do. Changes nothing."""

    input_class = ConsequenceInput
    output_class = ConsequenceOutput
    scope = "read"
    operation = "gates_consequence"

    def respond(self, request: Request, pk: int) -> Response:
        found = self.find(request, pk)
        preview = services.preview_answers(gate=found, **self.given(request, found))
        return self.show(preview)


class AdditionInput(StrictSerializer):
    """What is said of a file, in the address: the body is the file itself."""

    name = serializers.CharField(max_length=100, help_text="as of a file: letters, digits, dots, - and _")
    kind = serializers.ChoiceField(choices=[(each.value, each.label) for each in KINDS])
    title = serializers.CharField(max_length=200, default="", allow_blank=True)
    caption = serializers.CharField(max_length=500, default="", allow_blank=True)
    item = serializers.CharField(max_length=120, default="", allow_blank=True, help_text="the tilt series it speaks of")
    sha256 = serializers.CharField(
        max_length=64, default="", allow_blank=True, help_text="hex; or send a header Content-Digest or Digest"
    )


class AddEvidence(GateCommand):
    """Add a file to what the gate shows, while it is being prepared or open, where its protocol takes additions.

    The same file under the same name again changes nothing and is answered with 200.
    """

    parser_classes = (RawBody,)
    scope = ("operate", "decide")
    operation = "gates_add_evidence"

    @extend_schema(
        request={"application/octet-stream": OpenApiTypes.BINARY},
        parameters=[
            AdditionInput,
            _header("Content-Digest", "sha-256=:BASE64: (RFC 9530)"),
            _header("Digest", "SHA-256=BASE64 (RFC 3230)"),
        ],
        responses={200: EvidenceOutput, 201: EvidenceOutput, 413: RefusalOutput, 502: RefusalOutput},
        extensions={"x-repeatable": False},
    )
    def post(self, request: Request, pk: int) -> Response:
        gate = self.find(request, pk)
        query = AdditionInput(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        wish = query.validated_data
        sha256 = stated_sha256(request.headers, wish.pop("sha256"))
        addition, author = services.Addition(**wish), author_of(request)
        services.check_adding(gate=gate, author=author, addition=addition)
        with Incoming(addition.name) as incoming:
            _receive(request, incoming)
            piece, is_new = services.add_evidence(
                gate_id=pk, author=author, addition=addition, incoming=incoming, sha256=sha256
            )
        return Response(EvidenceOutput(piece).data, status=201 if is_new else 200)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        drain(request._request, known_sender=request.user.is_authenticated)
        return super().finalize_response(request, response, *args, **kwargs)


def _receive(request: Request, incoming: Incoming) -> None:
    """Write the body away bit by bit; what says itself that it is too large is not begun."""
    length_bytes = int(request.META.get("CONTENT_LENGTH") or 0)
    if length_bytes > MAX_PIECE_BYTES:
        raise TooLarge(f"{incoming.name} is larger than evidence may be: {MAX_PIECE_BYTES} bytes. It was not read.")
    body: Any = request.data if length_bytes else BytesIO()
    while chunk := body.read(CHUNK_BYTES):
        incoming.write(chunk)


class AskAgentInput(StrictSerializer):
    agent = serializers.IntegerField(min_value=1, max_value=2**53, help_text="id of an agent of the gate's lab")


class AskAgentOutput(serializers.Serializer[Any]):
    asks = AskOutput(many=True)


class AskAgent(GateCommand):
    """Ask an agent about each item of an open gate. Answers come in as advice, and decide nothing."""

    input_class = AskAgentInput
    output_class = AskAgentOutput
    scope = ("operate", "decide")
    operation = "gates_ask_agent"
    success = 201

    def respond(self, request: Request, pk: int) -> Response:
        given = self.given(request, self.find(request, pk))
        asks = services.ask_at_gate(gate_id=pk, agent_id=given["agent"], author=author_of(request))
        return self.show({"asks": asks})


class DelegateInput(StrictSerializer):
    to = serializers.CharField(max_length=150, help_text="user name of somebody who may answer gates in this lab")
    reason = serializers.CharField(max_length=10_000)


class Delegate(GateCommand):
    """Let somebody else answer too."""

    input_class = DelegateInput
    scope = "decide"
    operation = "gates_delegate"

    def carry_out(self, found: Gate, author: Author, **given: Any) -> None:
        services.delegate_gate(gate_id=found.pk, author=author, to_username=given["to"], reason=given["reason"])


class Reopen(GateCommand):
    """Ask again, in a new iteration; that one is the answer."""

    scope = "decide"
    operation = "gates_reopen"
    success = 201

    def carry_out(self, found: Gate, author: Author, **given: Any) -> Gate:
        return services.reopen_gate(gate_id=found.pk, author=author, **given)


class Withdraw(GateCommand):
    """Take the question back."""

    scope = ("operate", "decide")
    operation = "gates_withdraw"

    def carry_out(self, found: Gate, author: Author, **given: Any) -> None:
        services.withdraw_gate(gate_id=found.pk, author=author, **given)


class RetryPreparing(GateCommand):
    """Make the evidence anew, after that failed."""

    input_class = NoInput
    scope = ("operate", "decide")
    operation = "gates_retry_preparing"

    def carry_out(self, found: Gate, author: Author, **given: Any) -> None:
        services.retry_preparing(gate_id=found.pk, author=author)


class RetryApplying(GateCommand):
    """Write the decision's effects back once more, after that failed."""

    input_class = NoInput
    scope = ("operate", "decide")
    operation = "gates_retry_applying"

    def carry_out(self, found: Gate, author: Author, **given: Any) -> None:
        services.retry_applying(gate_id=found.pk, author=author)


commands = [
    path("gates/<int:pk>/decide/", Decide.as_view(), name="gate-decide"),
    path("gates/<int:pk>/suggest/", Suggest.as_view(), name="gate-suggest"),
    path("gates/<int:pk>/consequence/", Consequence.as_view(), name="gate-consequence"),
    path("gates/<int:pk>/evidence/", AddEvidence.as_view(), name="gate-evidence"),
    path("gates/<int:pk>/ask-agent/", AskAgent.as_view(), name="gate-ask-agent"),
    path("gates/<int:pk>/delegate/", Delegate.as_view(), name="gate-delegate"),
    path("gates/<int:pk>/reopen/", Reopen.as_view(), name="gate-reopen"),
    path("gates/<int:pk>/withdraw/", Withdraw.as_view(), name="gate-withdraw"),
    path("gates/<int:pk>/retry-preparing/", RetryPreparing.as_view(), name="gate-retry-preparing"),
    path("gates/<int:pk>/retry-applying/", RetryApplying.as_view(), name="gate-retry-applying"),
]
