"""What the API of every app is made of: read-only lists within a lab, and commands, one view a verb."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import MAXYEAR, MINYEAR, datetime
from functools import reduce
from typing import Any, ClassVar, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from django_filters.fields import IsoDateTimeField
from django_filters.rest_framework import DjangoFilterBackend, IsoDateTimeFilter
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import ReadOnlyModelViewSet

from record import repeats
from record.access import require, visible
from record.forms import REASON_CHARS
from record.models import Door
from record.services import Author

log = logging.getLogger(__name__)

DRAIN_BYTES = 8 * 1024 * 1024


class StrictFilter(DjangoFilterBackend):
    """Filters by the query; a parameter that means nothing is refused, so that a misspelt one never shows too much."""

    ALWAYS = frozenset({"cursor", "page_size", "ordering"})

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset = self.get_filterset(request, queryset, view)
        known = set(filterset.filters) if filterset else set()
        if unknown := sorted(set(request.query_params) - known - self.ALWAYS):
            offer = ", ".join(sorted(known | self.ALWAYS))
            raise ValidationError({name: [f"There is no such filter. There are: {offer}."] for name in unknown})
        return super().filter_queryset(request, queryset, view)


class StrictOrdering(OrderingFilter):
    """Orders by the query; a name by which nothing can be ordered is refused: no order passes for another."""

    def remove_invalid_fields(
        self, queryset: QuerySet[Any], fields: Iterable[str], view: Any, request: Request
    ) -> list[str]:
        known = {name for name, _ in self.get_valid_fields(queryset, view, {"request": request})}
        terms = list(fields)
        if unknown := [term[:60] for term in terms if term.removeprefix("-") not in known]:
            offer = ", ".join(sorted(known))
            raise ValidationError({"ordering": [f"Nothing is ordered by {unknown[0]!r}. There are: {offer}."]})
        return terms


class MomentField(IsoDateTimeField):
    """An ISO 8601 moment that every database can hold: in the years 2 to 9998, so in any time zone."""

    def to_python(self, value: Any) -> datetime | None:
        try:
            moment = super().to_python(value)
        except OverflowError:
            moment = datetime.max
        if moment is not None and not MINYEAR < moment.year < MAXYEAR:
            raise DjangoValidationError("Give a year between 2 and 9998.", code="out_of_range")
        return moment


class MomentFilter(IsoDateTimeFilter):
    """Compares with a moment; one that can't be meant is refused."""

    field_class = MomentField


class StrictSerializer(serializers.Serializer[Any]):
    """Input of a command: fields that it does not know are refused."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            offer = ", ".join(self.fields) or "none"
            raise ValidationError({name: [f"There is no such field. There are: {offer}."] for name in unknown})
        return super().to_internal_value(data)


class ReasonInput(StrictSerializer):
    """Why; kept with the decision or the event."""

    reason = serializers.CharField(max_length=REASON_CHARS, required=False, allow_blank=True, default="")


class NoInput(StrictSerializer):
    """A command that needs nothing more."""


@extend_schema_serializer(component_name="Problem")
class RefusalOutput(serializers.Serializer[Any]):
    """What every refusal looks like: the problem details of RFC 9457, with a code and details of our own."""

    type = serializers.CharField(help_text="urn:conductor:problem: and the code")
    title = serializers.CharField(help_text="what kind of refusal it is, in a few words")
    status = serializers.IntegerField(help_text="the answer's status")
    detail = serializers.CharField(help_text="what happened to what, and what to do, for people")
    instance = serializers.CharField(help_text="the address that was asked")
    code = serializers.CharField(help_text="a stable word for programs")
    extra = serializers.DictField(help_text="details; for bad input, `fields` names what is wrong where")


class AnyAccept(BaseContentNegotiation):
    """For files: what they are does not depend on what the client would like; refusals come as JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class RawBody(BaseParser):
    """A file as the body itself: `request.data` is the stream, to be read bit by bit."""

    media_type = "application/octet-stream"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        return stream


def drain(body: Any, *, known_sender: bool = False) -> None:
    """Read and drop what is left of a body that was refused: a socket closed on unread bytes is reset, and the sender
    would see that instead of the answer. All that may be sent of somebody who has signed in, else DRAIN_BYTES."""
    left = settings.UPLOAD_LIMIT_BYTES if known_sender else DRAIN_BYTES
    try:
        while left > 0 and (chunk := body.read(min(left, 64 * 1024))):
            left -= len(chunk)
    except OSError:
        log.info("the sender of a refused body hung up")


class Unkept:
    """Answers that nobody on the way may keep, unless they say otherwise."""

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[misc]
        response.headers.setdefault("Cache-Control", "no-store")
        return response


class Tagged:
    """Reads that carry a weak ETag of what they show, and are answered 304 where the asker has just that.

    The tag is taken from the answer itself, not from the rows' columns: what is shown of a row also comes from its
    relations, from the asker's roles and from the clock, and a tag that missed one of them would hide a change.
    Only the asker may keep such an answer, and has to ask each time whether it still holds.
    """

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[misc]
        if request.method in ("GET", "HEAD") and response.status_code == 200 and isinstance(response, Response):
            response.headers["Cache-Control"] = "private, no-cache"
            patch_vary_headers(response, ["Authorization", "Cookie"])
            response.add_post_render_callback(lambda rendered: tag_answer(request, rendered))
        return response


def tag_answer(request: Request, response: HttpResponse) -> HttpResponse:
    """The answer with its weak ETag, or 304 without a body where If-None-Match names that tag."""
    etag = f'W/"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    if not holds(request, etag):
        response.headers["ETag"] = etag
        return response
    kept = {name: response.headers[name] for name in ("Cache-Control", "Vary")}
    return HttpResponse(status=304, headers=kept | {"ETag": etag})


def holds(request: Request, etag: str) -> bool:
    """Whether the asker says (If-None-Match) that they have what this tag stands for; compared weakly (RFC 9110)."""
    told = parse_etags(request.headers.get("If-None-Match", ""))
    return told == ["*"] or etag.removeprefix("W/") in [each.removeprefix("W/") for each in told]


class LabReadOnly(Tagged, Unkept, ReadOnlyModelViewSet[Any]):
    """Lists and shows what belongs to the labs of whoever asks; everything else does not exist (404).

    `lab_path` is the lookup path from the model to its lab; `detail_class` shows one row at more length; `scope` is
    what a token must have been made for.
    """

    scope: str = "read"

    lab_path: ClassVar[str] = "lab"
    detail_class: ClassVar[type[BaseSerializer[Any]] | None] = None
    lookup_value_converter = "int"
    filter_backends: Sequence[Any] = (StrictFilter, StrictOrdering)

    def get_queryset(self) -> QuerySet[Any]:
        return visible(super().get_queryset(), self.request.user, lab=self.lab_path)

    def get_serializer_class(self) -> type[BaseSerializer[Any]]:
        if self.action == "retrieve" and self.detail_class is not None:
            return self.detail_class
        return super().get_serializer_class()


def author_of(request: Request) -> Author:
    """Whoever asks, by the API's door."""
    return Author.person(cast(User, request.user), Door.API)


class CommandSchema(AutoSchema):
    """Describes a command by its input and output serializers."""

    view: Any

    def get_request_serializer(self) -> Any:
        return self.view.input_class

    def get_response_serializers(self) -> Any:
        output = self.view.output_class
        return {
            str(self.view.success): output(many=True) if self.view.output_is_a_list else output,
            "400": RefusalOutput,
            "403": RefusalOutput,
            "404": RefusalOutput,
            "409": RefusalOutput,
        }

    def get_operation_id(self) -> str:
        return self.view.operation

    def get_extensions(self) -> dict[str, Any]:
        """That an Idempotency-Key may be sent; the schema's last step puts it into words."""
        return {"x-repeatable": True}


class Repeatable:
    """Commands that may be sent again under an `Idempotency-Key`: the first answer is then given once more.

    With `in_one_transaction` what the command changes and its answer are committed together; a command that waits for
    something outside the database can't, and its key is taken before and answered after it.
    """

    in_one_transaction: ClassVar[bool] = True

    def once(self, request: Request, respond: Callable[[], Response]) -> HttpResponse:
        """What `respond` answers; under a key, that of the first request that came with it."""
        header = request.headers.get(repeats.HEADER)
        if header is None:
            return respond()
        key = repeats.read_key(header)
        repeat = repeats.Repeat(cast(User, request.user), key, repeats.fingerprint(request))
        return repeats.answer_once(
            repeat=repeat,
            respond=respond,
            refuse=self.handle_exception,  # type: ignore[attr-defined]
            in_one_transaction=self.in_one_transaction,
        )


class Command(Repeatable, Unkept, APIView):
    """One verb on one thing: find it, ask the policy, read the input, call one service, show what came of it.

    Services ask the policy themselves; where one does not, `ability` names what is needed in the thing's lab. `scope`
    is what a token must have been made for, or several of which any will do. `carry_out` may return the row to show;
    otherwise the thing itself is shown, as it is then. Commands that answer something else override `respond`.
    """

    schema = CommandSchema()
    queryset: ClassVar[QuerySet[Any]]
    lab_path: ClassVar[str] = "lab"
    ability: ClassVar[str | None] = None
    scope: ClassVar[str | tuple[str, ...]]
    input_class: ClassVar[type[StrictSerializer]] = ReasonInput
    output_class: ClassVar[type[BaseSerializer[Any]]]
    output_is_a_list: ClassVar[bool] = False
    operation: ClassVar[str]
    success: ClassVar[int] = 200

    def post(self, request: Request, pk: int) -> HttpResponse:
        return self.once(request, lambda: self.respond(request, pk))

    def respond(self, request: Request, pk: int) -> Response:
        """Do it, and show what came of it."""
        found = self.find(request, pk)
        made = self.carry_out(found, author_of(request), **self.given(request, found))
        return self.show(self.queryset.get(pk=(made or found).pk))

    def find(self, request: Request, pk: int) -> Any:
        """The row, if it belongs to a lab of whoever asks (else 404) and they may do this to it (else NotAllowed)."""
        found = get_object_or_404(visible(self.queryset, request.user, lab=self.lab_path), pk=pk)
        if self.ability is not None:
            lab = reduce(getattr, self.lab_path.split("__"), found)
            require(request.user, self.ability, lab.pk)
        return found

    def given(self, request: Request, found: Any) -> dict[str, Any]:
        """The checked input, as keyword arguments."""
        serializer = self.input_class(data=request.data, context={"request": request, "found": found})
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def carry_out(self, found: Any, author: Author, **given: Any) -> Model | None:
        """Call the service."""
        raise NotImplementedError

    def show(self, row: Any) -> Response:
        serializer = self.output_class(row, context={"request": self.request})
        return Response(serializer.data, status=self.success)
