"""What the API of every app is made of: read-only lists within a lab, and commands, one view a verb."""

from collections.abc import Sequence
from datetime import MAXYEAR, MINYEAR, datetime
from functools import reduce
from typing import Any, ClassVar, cast

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404
from django_filters.fields import IsoDateTimeField
from django_filters.rest_framework import DjangoFilterBackend, IsoDateTimeFilter
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.filters import OrderingFilter
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import ReadOnlyModelViewSet

from record.access import require, visible
from record.forms import REASON_CHARS
from record.models import Door
from record.services import Author


class StrictFilter(DjangoFilterBackend):
    """Filters by the query; a parameter that means nothing is refused, so that a misspelt one never shows too much."""

    ALWAYS = frozenset({"page", "page_size", "ordering"})

    def filter_queryset(self, request: Request, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filterset = self.get_filterset(request, queryset, view)
        known = set(filterset.filters) if filterset else set()
        if unknown := sorted(set(request.query_params) - known - self.ALWAYS):
            offer = ", ".join(sorted(known | self.ALWAYS))
            raise ValidationError({name: [f"There is no such filter. There are: {offer}."] for name in unknown})
        return super().filter_queryset(request, queryset, view)


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


class RefusalOutput(serializers.Serializer[Any]):
    """What every refusal looks like."""

    code = serializers.CharField(help_text="a stable word for programs")
    message = serializers.CharField(help_text="what happened to what, and what to do, for people")
    extra = serializers.DictField(help_text="details; for bad input, `fields` names what is wrong where")


class AnyAccept(BaseContentNegotiation):
    """For files: what they are does not depend on what the client would like; refusals come as JSON."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class Unkept:
    """Answers that nobody on the way may keep, unless they say otherwise."""

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)  # type: ignore[misc]
        response.headers.setdefault("Cache-Control", "no-store")
        return response


class LabReadOnly(Unkept, ReadOnlyModelViewSet[Any]):
    """Lists and shows what belongs to the labs of whoever asks; everything else does not exist (404).

    `lab_path` is the lookup path from the model to its lab; `detail_class` shows one row at more length.
    """

    lab_path: ClassVar[str] = "lab"
    detail_class: ClassVar[type[BaseSerializer[Any]] | None] = None
    lookup_value_converter = "int"
    filter_backends: Sequence[Any] = (StrictFilter, OrderingFilter)

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
        return {
            str(self.view.success): self.view.output_class,
            "400": RefusalOutput,
            "403": RefusalOutput,
            "404": RefusalOutput,
            "409": RefusalOutput,
        }

    def get_operation_id(self) -> str:
        return self.view.operation


class Command(Unkept, APIView):
    """One verb on one thing: find it, ask the policy, read the input, call one service, show what came of it.

    Services ask the policy themselves; where one does not, `ability` names what is needed in the thing's lab.
    `carry_out` may return the row to show; otherwise the thing itself is shown, as it is then.
    """

    schema = CommandSchema()
    queryset: ClassVar[QuerySet[Any]]
    lab_path: ClassVar[str] = "lab"
    ability: ClassVar[str | None] = None
    input_class: ClassVar[type[StrictSerializer]] = ReasonInput
    output_class: ClassVar[type[BaseSerializer[Any]]]
    operation: ClassVar[str]
    success: ClassVar[int] = 200

    def post(self, request: Request, pk: int) -> Response:
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
