"""Notices as pages: what a person wants to hear, the channels of a lab, and what became of each notice."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from record.access import Ability, lab_ids, require, visible
from record.errors import ConductorError, NotAllowed
from record.models import Channel, Delivery, Lab, PersonalNotices
from record.notices import services
from record.notices.forms import ChannelForm, DeliveryFilter, WishesForm, grouped_boxes
from record.notices.places import how_to_give
from record.notices.secrets import secret_of, variable_of
from record.pages import page_author, page_of


@require_http_methods(["GET", "HEAD", "POST"])
def mine(request: HttpRequest) -> HttpResponse:
    """What this person wants to hear, and when."""
    user = request.user
    if not isinstance(user, User):
        raise NotAllowed("Sign in first.")
    kept = services.wishes_of(user)
    initial = {name: getattr(kept, name) for name in kept.__dataclass_fields__} | {"digest": "1" if kept.digest else ""}
    form = WishesForm(request.POST if request.method == "POST" else None, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            services.save_wishes(user=user, wishes=form.wishes())
        except ConductorError as refusal:
            form.add_error(None, refusal.message)
        else:
            messages.success(request, "Kept.")
            return redirect("notices:mine")
    context = _frame(request) | {
        "form": form,
        "kinds": grouped_boxes(form),
        "never_said": not PersonalNotices.objects.filter(user=user).exists(),
    }
    return render(
        request, "record/notices_mine.html", context, status=200 if form.is_valid() or not form.errors else 400
    )


@require_safe
def channels(request: HttpRequest) -> HttpResponse:
    """The channels of the person's labs, and how each fares."""
    rows = visible(Channel.objects.select_related("lab"), request.user).order_by("lab__name", "name")
    mine_to_set_up = Lab.objects.filter(pk__in=lab_ids(request.user, Ability.OVERRIDE))
    context = _frame(request) | {"page_obj": page_of(request, rows), "labs": list(mine_to_set_up)}
    return render(request, "record/notices_channels.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def new_channel(request: HttpRequest, slug: str) -> HttpResponse:
    """Make a channel of a lab."""
    lab = get_object_or_404(Lab.objects.filter(pk__in=lab_ids(request.user)), slug=slug)
    require(request.user, Ability.OVERRIDE, lab.pk)
    return _channel_page(request, lab, None)


@require_http_methods(["GET", "HEAD", "POST"])
def channel(request: HttpRequest, pk: int) -> HttpResponse:
    """One channel: change it, try it, see what became of its last notices."""
    row = get_object_or_404(visible(Channel.objects.select_related("lab"), request.user), pk=pk)
    assert row.lab is not None  # noqa: S101  (`visible` asks for a lab)
    require(request.user, Ability.OVERRIDE, row.lab.pk)
    return _channel_page(request, row.lab, row)


def _channel_page(request: HttpRequest, lab: Lab, row: Channel | None) -> HttpResponse:
    form = ChannelForm(request.POST if request.method == "POST" else None, instance=row)
    if request.method == "POST" and form.is_valid():
        try:
            kept = services.save_channel(lab_id=lab.pk, author=page_author(request), channel=row, **form.cleaned_data)
        except ConductorError as refusal:
            form.add_error(None, refusal.message)
        else:
            messages.success(request, "Kept. Try whether it works.")
            return redirect("notices:channel", kept.pk)
    if row is not None:
        row.refresh_from_db()  # a refused form may have left its values in it
    context = _frame(request) | {"form": form, "lab": lab, "channel": row} | (_fares(row) if row else {})
    return render(request, "record/notices_channel.html", context, status=400 if form.errors else 200)


def _fares(row: Channel) -> dict[str, Any]:
    name = variable_of(row)
    return {
        "deliveries": list(_deliveries().filter(channel=row)[:10]),
        "secret_missing": bool(name) and not secret_of(row),
        "secret_how": how_to_give(row),
    }


@require_POST
def try_channel(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test over a channel; what becomes of it is shown on its page."""
    row = get_object_or_404(visible(Channel.objects.select_related("lab"), request.user), pk=pk)
    services.try_channel(channel=row, author=page_author(request))
    messages.success(request, "A test is on its way. What becomes of it stands below in a few seconds.")
    return redirect("notices:channel", pk)


@require_safe
def deliveries(request: HttpRequest) -> HttpResponse:
    """What became of each notice, for those who may do something about it."""
    labs = lab_ids(request.user, Ability.OPERATE)
    if not labs.exists():
        raise NotAllowed("To see what became of notices you need the role operator or administrator in a lab.")
    form = DeliveryFilter(request.GET)
    rows = form.narrow(_deliveries().filter(event__lab__in=labs))
    context = _frame(request) | {"form": form, "page_obj": page_of(request, rows)}
    return render(request, "record/notices_deliveries.html", context)


@require_POST
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a notice that was given up again."""
    rows = visible(Delivery.objects.select_related("event", "channel"), request.user, lab="event__lab")
    services.retry_delivery(delivery=get_object_or_404(rows, pk=pk), author=page_author(request))
    messages.success(request, "It is sent again.")
    return redirect("notices:deliveries")


def _deliveries() -> Any:
    return Delivery.objects.select_related("event__lab", "channel__lab", "channel__owner").order_by("-id")


def _frame(request: HttpRequest) -> dict[str, Any]:
    """What the tabs of these pages need."""
    operates = lab_ids(request.user, Ability.OPERATE)
    given_up = Delivery.objects.filter(event__lab__in=operates, state="given_up").count() if operates.exists() else 0
    return {"operates": operates.exists(), "given_up": given_up, "tab": request.resolver_match.url_name}  # type: ignore[union-attr]
