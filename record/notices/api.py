"""The API of notices: channels, what became of each notice, what you yourself hear of."""

from dataclasses import asdict
from functools import cached_property
from typing import Any, cast

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import path, reverse
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from record.access import Ability, lab_ids
from record.kinds import KINDS, TOPICS
from record.models import Channel, Delivery, Lab
from record.notices import services
from record.notices.models import ChannelKind, DeliveryState
from record.rest import (
    Command,
    LabReadOnly,
    NoInput,
    RefusalOutput,
    Repeatable,
    StrictSerializer,
    Tagged,
    Unkept,
    author_of,
)
from record.services import Author

ZONE_CHARS = 60


class ChannelOutput(serializers.ModelSerializer[Channel]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    topics = serializers.ListField(child=serializers.CharField())
    address = serializers.SerializerMethodField(
        help_text="of a webhook the scheme and the host alone, unless you may change the channel"
    )

    def get_address(self, channel: Channel) -> str:
        return channel.address if channel.lab_id in self._changeable else channel.shown_address

    @cached_property
    def _changeable(self) -> set[int]:
        """The labs whose channels the asker may change; asked once a list."""
        return set(lab_ids(self.context["request"].user, Ability.OVERRIDE))

    class Meta:
        model = Channel
        fields = [
            "id", "uuid", "lab", "name", "kind", "address", "identity", "topics", "with_pictures", "enabled",
            "failures", "closed_until", "problem", "sent_at",
        ]  # fmt: skip


class ChangeChannelInput(StrictSerializer):
    """What is to be different; what is left out stays."""

    name = serializers.CharField(max_length=40, required=False)
    kind = serializers.ChoiceField(ChannelKind.choices, required=False)
    address = serializers.CharField(max_length=1000, required=False, allow_blank=True)
    identity = serializers.CharField(max_length=40, required=False, help_text="Matrix: as which bot it speaks")
    topics = serializers.ListField(child=serializers.ChoiceField(list(TOPICS.items())), required=False)
    with_pictures = serializers.BooleanField(required=False)
    enabled = serializers.BooleanField(required=False)


class NewChannelInput(ChangeChannelInput):
    """A channel of a lab of yours."""

    lab = serializers.SlugRelatedField[Lab](slug_field="slug", queryset=Lab.objects.all())
    name = serializers.CharField(max_length=40)
    kind = serializers.ChoiceField(ChannelKind.choices)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if request := self.context.get("request"):
            mine = Lab.objects.filter(pk__in=lab_ids(request.user))
            cast(Any, self.fields["lab"]).queryset = mine


class ChannelFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")

    class Meta:
        model = Channel
        fields = ["kind", "name", "enabled"]


class ChannelViewSet(Repeatable, LabReadOnly):
    """Where labs are told of what happens."""

    queryset = Channel.objects.filter(owner=None).select_related("lab").order_by("id")
    serializer_class = ChannelOutput
    filterset_class = ChannelFilter
    ordering_fields = ["id", "name"]

    @property
    def scope(self) -> str:  # type: ignore[override]
        """Reading the list and adding to it have one address."""
        return "decide" if self.action == "create" else "read"

    @extend_schema(
        operation_id="channels_create",
        request=NewChannelInput,
        responses={201: ChannelOutput, 400: RefusalOutput, 403: RefusalOutput},
        extensions={"x-repeatable": True},
    )
    def create(self, request: Request) -> HttpResponse:
        """Make a channel; for administrators of the lab. It has no secret yet: see docs/notices.md."""
        return self.once(request, lambda: self._make(request))

    def _make(self, request: Request) -> Response:
        given = NewChannelInput(data=request.data, context={"request": request})
        given.is_valid(raise_exception=True)
        wish = dict(given.validated_data)
        made = services.save_channel(lab_id=wish.pop("lab").pk, author=author_of(request), **wish)
        where = request.build_absolute_uri(reverse("api:channel-detail", kwargs={"pk": made.pk}))
        shown = ChannelOutput(made, context={"request": request})
        return Response(shown.data, status=201, headers={"Location": where})


class ChangeChannel(Command):
    """Change a channel; for administrators of its lab."""

    scope = "decide"
    queryset = ChannelViewSet.queryset
    input_class = ChangeChannelInput
    output_class = ChannelOutput
    operation = "channels_change"

    def carry_out(self, found: Channel, author: Author, **given: Any) -> None:
        assert found.lab_id is not None  # noqa: S101  (the query set leaves out personal ones)
        services.save_channel(lab_id=found.lab_id, author=author, channel=found, **({"name": found.name} | given))


class DeliveryOutput(serializers.ModelSerializer[Delivery]):
    lab = serializers.CharField(source="event.lab.slug")
    event = serializers.IntegerField(source="event_id")
    kind = serializers.CharField(source="event.kind")
    message = serializers.CharField(source="event.message")
    channel = serializers.CharField(source="channel.__str__", help_text="LAB/NAME, or whose own notices")

    class Meta:
        model = Delivery
        fields = [
            "id", "uuid", "lab", "event", "kind", "message", "channel", "recipient", "state", "at", "due_at",
            "attempts", "doubtful", "ended_at", "remote_id", "error",
        ]  # fmt: skip


class TryChannel(Command):
    """Send a test over a channel, by the outbox like anything else; the answer is what is owed."""

    scope = "decide"
    queryset = ChannelViewSet.queryset
    input_class = NoInput
    output_class = DeliveryOutput
    operation = "channels_try"
    success = 201

    def respond(self, request: Request, pk: int) -> Response:
        found = self.find(request, pk)
        self.given(request, found)
        owed = services.try_channel(channel=found, author=author_of(request))
        return self.show(DeliveryViewSet.queryset.get(pk=owed.pk))


class DeliveryFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="event__lab__slug", label="slug of the lab")
    state = filters.ChoiceFilter(choices=DeliveryState.choices)

    class Meta:
        model = Delivery
        fields = ["channel", "event"]


class DeliveryViewSet(LabReadOnly):
    """What is owed to whom and what became of it, newest first; of the labs where you are operator or administrator."""

    queryset = Delivery.objects.select_related("event__lab", "channel__lab", "channel__owner").order_by("-id")
    serializer_class = DeliveryOutput
    filterset_class = DeliveryFilter
    lab_path = "event__lab"
    ordering_fields = ["id"]

    def get_queryset(self) -> QuerySet[Any]:
        return super().get_queryset().filter(event__lab__in=lab_ids(self.request.user, Ability.OPERATE, to_see=True))


class RetryDelivery(Command):
    """Send again what was given up."""

    scope = "operate"
    queryset = DeliveryViewSet.queryset
    lab_path = "event__lab"
    input_class = NoInput
    output_class = DeliveryOutput
    operation = "deliveries_retry"

    def carry_out(self, found: Delivery, author: Author, **given: Any) -> None:
        services.retry_delivery(delivery=found, author=author)


@extend_schema_field(
    {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$", "minLength": 5, "maxLength": 8}
)
class ClockField(serializers.TimeField):
    """A time on the asker's clock, which has no offset: JSON Schema's `time` would need one."""


class WishesField(StrictSerializer):
    """What you hear of, and when; times are of your own zone."""

    kinds = serializers.ListField(
        child=serializers.ChoiceField([(name, kind.label) for name, kind in KINDS.items() if kind.notable])
    )
    digest = serializers.BooleanField(default=False, help_text="once a day, in one message")
    digest_at = ClockField(default=services.Wishes().digest_at)
    quiet_from = ClockField(allow_null=True, default=None)
    quiet_until = ClockField(allow_null=True, default=None)
    time_zone = serializers.CharField(max_length=ZONE_CHARS, default="UTC")
    remind_after_h = serializers.IntegerField(allow_null=True, default=None, min_value=1, max_value=336)


@extend_schema_view(
    get=extend_schema(operation_id="notices_mine", responses={200: WishesField}),
    put=extend_schema(
        operation_id="notices_mine_update",
        request=WishesField,
        responses={200: WishesField, 400: RefusalOutput, 403: RefusalOutput},
    ),
)
class MyNotices(Tagged, Unkept, APIView):
    """What you yourself hear of."""

    scope = ("operate", "decide")

    def get(self, request: Request) -> Response:
        """What you hear of; before you ever said, what would be proposed."""
        return self._show(cast(User, request.user))

    def put(self, request: Request) -> Response:
        """Say what you want to hear; all of it, in place of what you said before."""
        given = WishesField(data=request.data)
        given.is_valid(raise_exception=True)
        services.save_wishes(user=cast(User, request.user), wishes=services.Wishes(**given.validated_data))
        return self._show(get_object_or_404(User, pk=request.user.pk))

    def _show(self, user: User) -> Response:
        return Response(WishesField(asdict(services.wishes_of(user))).data)


commands = [
    path("channels/<int:pk>/change/", ChangeChannel.as_view(), name="channel-change"),
    path("channels/<int:pk>/try/", TryChannel.as_view(), name="channel-try"),
    path("deliveries/<int:pk>/retry/", RetryDelivery.as_view(), name="delivery-retry"),
    path("notices/mine/", MyNotices.as_view(), name="my-notices"),
]
