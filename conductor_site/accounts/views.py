"""One's own account: password and tokens; and what one-time links lead to."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor_site.accounts.forgotten import ask_for_password_link, can_mail
from conductor_site.accounts.forms import DAY_H, ChangePasswordForm, ForgottenForm, JoinForm, TokenForm, TwicePassword
from conductor_site.accounts.invitations import JOINING, accept_with_account, accept_with_new_account
from conductor_site.accounts.links import open_link
from conductor_site.accounts.passwords import change_password, set_password_by_link
from conductor_site.api.tokens import make_token, own_tokens
from conductor_site.models import LinkKind
from conductor_site.signin import check_own_password, counted_address, remember_browser
from record.errors import ConductorError
from record.members import in_order
from record.models import Membership
from record.pages import page_author

PASSWORD_BACKEND = "django.contrib.auth.backends.ModelBackend"  # noqa: S105 (a class)


@never_cache
@require_safe
def me(request: HttpRequest) -> HttpResponse:
    """Who one is here: labs and roles, tokens, the password."""
    return _me(request)


@never_cache
@require_POST
def new_token(request: HttpRequest) -> HttpResponse:
    """Make a token and show it, this once."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _me(request, form=form, status=400)
    wish = form.cleaned_data
    row, token = make_token(
        user=_user(request), name=wish["name"], scopes=wish["scopes"], life_h=wish["life_d"] * DAY_H
    )
    return shown_once(
        request,
        title=f"Token {row.name}",
        value=token,
        told=f"It may: {row.scope_names}. Send it as the header “Authorization: Token …”.",
        until=row.expiry,
        back=reverse("account:me"),
    )


@require_POST
def revoke_token(request: HttpRequest, token_key: str) -> HttpResponse:
    """End one of one's own tokens."""
    row = get_object_or_404(own_tokens(request.user), token_key=token_key)
    row.delete()
    messages.success(request, f"The token {row.name} is revoked.")
    return redirect("account:me")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password; other browsers are signed out."""
    user = _user(request)
    form = ChangePasswordForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"form": form, "usable": user.has_usable_password()}
    if request.method == "POST" and context["usable"] and form.is_valid():
        try:
            check_own_password(request=request, user=user, password=form.cleaned_data["old_password"])
            change_password(user=user, password=form.cleaned_data["new_password1"])
        except ConductorError as refusal:
            return render(request, "accounts/password.html", context | {"refusal": refusal}, status=refusal.status)
        update_session_auth_hash(request, user)
        messages.success(request, "Your password is changed. Other browsers are signed out; tokens go on.")
        return redirect("account:me")
    return render(request, "accounts/password.html", context, status=400 if form.is_bound else 200)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, secret: str) -> HttpResponse:
    """Accept an invitation: with the account that one is signed in with, or a new one. A GET accepts nothing."""
    link = open_link(secret, *JOINING)
    if request.user.is_authenticated:
        return _join_signed_in(request, secret, {"link": link})
    form = JoinForm(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"link": link, "form": form}
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/join.html", context, status=400 if form.is_bound else 200)
    given = dict(form.cleaned_data)
    given.pop("new_password2")
    try:
        user = accept_with_new_account(secret=secret, password=given.pop("new_password1"), **given)
    except ConductorError as refusal:
        return render(request, "accounts/join.html", context | {"refusal": refusal}, status=refusal.status)
    return _welcome(request, user, f"Welcome: you are {link.role} of {link.lab}.")


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def new_password(request: HttpRequest, secret: str) -> HttpResponse:
    """Set a new password by a link. A GET sets nothing."""
    link = open_link(secret, LinkKind.PASSWORD)
    form = TwicePassword(request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"link": link, "form": form}
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/new_password.html", context, status=400 if form.is_bound else 200)
    try:
        user = set_password_by_link(secret=secret, password=form.cleaned_data["new_password1"])
    except ConductorError as refusal:
        page = context | {"refusal": refusal}
        return render(request, "accounts/new_password.html", page, status=refusal.status)
    return _welcome(
        request, user, "Your new password is set. Other browsers are signed out, and your tokens have ended."
    )


@login_not_required
@never_cache
@require_safe
def organisation(request: HttpRequest) -> HttpResponseBase:
    """To the organisation's provider, to sign in there."""
    return _provider("Begin", request)


@login_not_required
@never_cache
@require_safe
def organisation_return(request: HttpRequest) -> HttpResponseBase:
    """Back from the organisation's provider."""
    return _provider("Return", request)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def forgotten(request: HttpRequest) -> HttpResponse:
    """Ask for a link by mail; the answer is the same whoever is asked for."""
    form = ForgottenForm(request.POST if request.method == "POST" else None)
    sent = can_mail() and form.is_valid()
    if sent:
        ask_for_password_link(name=form.cleaned_data["name"].strip(), address=counted_address(request) or "")
    return render(request, "accounts/forgotten.html", {"form": form, "sent": sent, "can_mail": can_mail()})


def shown_once(request: HttpRequest, *, title: str, value: str, told: str, until: datetime, back: str) -> HttpResponse:
    """A page with a secret that can't be shown again."""
    context = {"title": title, "value": value, "told": told, "until": until, "back": back}
    return render(request, "accounts/shown_once.html", context)


def _provider(view: str, request: HttpRequest) -> HttpResponseBase:
    """The view of that name, which brings a cryptographic library with it: imported only where a provider is set up."""
    if settings.OIDC is None:
        raise Http404("This installation has no provider to sign in through.")
    from conductor_site.accounts import oidc

    return getattr(oidc, view).as_view()(request)


def _join_signed_in(request: HttpRequest, secret: str, context: dict[str, Any]) -> HttpResponse:
    if request.method != "POST":
        return render(request, "accounts/join_as.html", context)
    try:
        lab = accept_with_account(secret=secret, user=_user(request))
    except ConductorError as refusal:
        return render(request, "accounts/join_as.html", context | {"refusal": refusal}, status=refusal.status)
    messages.success(request, f"You are {context['link'].role} of {lab.name} now.")
    return redirect("home")


def _me(request: HttpRequest, *, form: TokenForm | None = None, status: int = 200) -> HttpResponse:
    labs: dict[Any, list[str]] = {}
    for each in Membership.objects.filter(user=_user(request)).select_related("lab").order_by("lab__name"):
        labs.setdefault(each.lab, []).append(each.role)
    context = {
        "labs": [(lab, in_order(roles)) for lab, roles in labs.items()],
        "tokens": own_tokens(request.user),
        "form": form or TokenForm(),
        "usable": _user(request).has_usable_password(),
    }
    return render(request, "accounts/me.html", context, status=status)


def _welcome(request: HttpRequest, user: User, message: str) -> HttpResponse:
    login(request, user, backend=PASSWORD_BACKEND)
    messages.success(request, message)
    response = redirect("home")
    remember_browser(request, response, user)
    return response


def _user(request: HttpRequest) -> User:
    user = page_author(request).user
    assert user is not None  # noqa: S101 - a page's author has signed in
    return user
