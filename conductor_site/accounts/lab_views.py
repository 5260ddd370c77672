"""The members of a lab: who is what, invitations, agents and their tokens."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from conductor_site.accounts.agents import make_agent_account, make_agent_token, revoke_agent_token
from conductor_site.accounts.closing import close_account, open_account
from conductor_site.accounts.forms import DAY_H, AddForm, AgentForm, InviteForm, RolesForm, TokenForm
from conductor_site.accounts.invitations import JOINING, invite, open_invitations, revoke_invitation
from conductor_site.accounts.passwords import make_password_link, may_make_password_link
from conductor_site.accounts.views import shown_once
from conductor_site.api.tokens import own_tokens
from conductor_site.models import ApiToken, OneTimeLink
from record.access import Ability, can, kind_of, require, visible
from record.errors import BadInput, ConductorError
from record.forms import ReasonForm
from record.members import LastOfRole, in_order, members_of, set_roles
from record.models import ActorKind, Lab, Membership
from record.pages import page_author


@never_cache
@require_safe
def members(request: HttpRequest, pk: int) -> HttpResponse:
    """Who belongs to the lab; for administrators also what can be done about it."""
    return _members(request, _lab(request, pk))


@never_cache
@require_POST
def new_invitation(request: HttpRequest, pk: int) -> HttpResponse:
    """Invite somebody, and show the link, this once."""
    lab = _managed(request, pk)
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _members(request, lab, invite_form=form, status=400)
    wish = form.cleaned_data
    made = invite(
        lab=lab, role=wish["role"], note=wish["note"], life_h=wish["life_d"] * DAY_H, author=page_author(request)
    )
    return shown_once(
        request,
        title=f"Invitation of {made.row.note or 'somebody'} as {made.row.role}",
        value=request.build_absolute_uri(reverse("join", args=[made.secret])),
        told=f"Give this link to whom it is for: whoever opens it first becomes {made.row.role} of {lab.name}.",
        until=made.row.expires_at,
        back=reverse("labs:members", args=[lab.pk]),
    )


@require_POST
def end_invitation(request: HttpRequest, pk: int, link: int) -> HttpResponse:
    """Take an invitation back."""
    lab = _managed(request, pk)
    row = get_object_or_404(OneTimeLink, lab=lab, kind__in=JOINING, pk=link)
    try:
        revoke_invitation(link=row, author=page_author(request))
    except ConductorError as refusal:
        return _members(request, lab, refusal=refusal, status=refusal.status)
    messages.success(request, "The invitation is taken back; its link is dead.")
    return redirect("labs:members", lab.pk)


@require_POST
def add(request: HttpRequest, pk: int) -> HttpResponse:
    """Give a role to somebody who has an account here already."""
    lab = _managed(request, pk)
    form = AddForm(request.POST)
    if not form.is_valid():
        return _members(request, lab, add_form=form, status=400)
    name, role = form.cleaned_data["username"], form.cleaned_data["role"]
    try:
        user = User.objects.filter(username=name, is_active=True, agent_account=None).first()
        if user is None:
            raise BadInput(f"Nobody here has the user name {name}. Invite them: the link makes their account.")
        roles = Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True)
        set_roles(lab=lab, user=user, roles={*roles, role}, author=page_author(request))
    except ConductorError as refusal:
        return _members(request, lab, add_form=form, refusal=refusal, status=refusal.status)
    messages.success(request, f"{name} is {role} of {lab.name} now.")
    return redirect("labs:members", lab.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def member(request: HttpRequest, pk: int, member: int) -> HttpResponse:
    """Change what a member is, or remove them."""
    lab = _managed(request, pk)
    user = _member(lab, member)
    is_agent = kind_of(user) == ActorKind.AGENT
    roles = in_order(Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True))
    without = "such role" if "confirmed" in request.POST else ""
    form = RolesForm(
        request.POST if request.method == "POST" else None, initial={"roles": roles}, agent=is_agent, without=without
    )
    context: dict[str, Any] = {
        "lab": lab,
        "member": user,
        "is_agent": is_agent,
        "form": form,
        "may_link": user.pk != request.user.pk and may_make_password_link(user, page_author(request)) and not is_agent,
    }
    if is_agent:
        context |= {
            "tokens": own_tokens(user),
            "token_form": TokenForm(),
            "close_form": ReasonForm(auto_id="id_close_%s"),
        }
    if request.method != "POST" or not form.is_valid():
        return render(request, "accounts/member.html", context, status=400 if form.is_bound else 200)
    try:
        set_roles(lab=lab, user=user, author=page_author(request), **form.cleaned_data)
    except LastOfRole as refusal:
        again = RolesForm(request.POST, agent=is_agent, without=" and no ".join(refusal.extra["roles"]))
        page = context | {"form": again, "refusal": refusal}
        return render(request, "accounts/member.html", page, status=refusal.status)
    except ConductorError as refusal:
        return render(request, "accounts/member.html", context | {"refusal": refusal}, status=refusal.status)
    messages.success(
        request, f"Recorded: {user.get_username()} is {' and '.join(form.cleaned_data['roles']) or 'no member'}."
    )
    return redirect("labs:members", lab.pk)


@never_cache
@require_POST
def password_link(request: HttpRequest, pk: int, member: int) -> HttpResponse:
    """Make a link by which a member sets a new password, and show it, this once."""
    lab = _managed(request, pk)
    user = _member(lab, member)
    made = make_password_link(user=user, author=page_author(request))
    return shown_once(
        request,
        title=f"New password for {user.get_username()}",
        value=request.build_absolute_uri(reverse("new-password", args=[made.secret])),
        told="Whoever opens this link sets the password and is in: give it to nobody else. Their tokens end with it.",
        until=made.row.expires_at,
        back=reverse("labs:members", args=[lab.pk]),
    )


@require_POST
def new_agent(request: HttpRequest, pk: int) -> HttpResponse:
    """Make an account for an agent."""
    lab = _managed(request, pk)
    form = AgentForm(request.POST)
    if not form.is_valid():
        return _members(request, lab, agent_form=form, status=400)
    try:
        agent = make_agent_account(lab=lab, author=page_author(request), **form.cleaned_data)
    except ConductorError as refusal:
        return _members(request, lab, agent_form=form, refusal=refusal, status=refusal.status)
    messages.success(request, f"{agent.get_full_name()} has an account. It comes by a token: make one for it here.")
    return redirect("labs:member", lab.pk, agent.pk)


@never_cache
@require_POST
def new_agent_token(request: HttpRequest, pk: int, member: int) -> HttpResponse:
    """Make a token for an agent, and show it, this once."""
    lab = _managed(request, pk)
    agent = _member(lab, member)
    form = TokenForm(request.POST)
    if not form.is_valid():
        raise BadInput("A token has a name, one or more scopes, and a number of days that it is good for.")
    wish = form.cleaned_data
    row, token = make_agent_token(
        agent=agent,
        name=wish["name"],
        scopes=wish["scopes"],
        life_h=wish["life_d"] * DAY_H,
        author=page_author(request),
    )
    return shown_once(
        request,
        title=f"Token {row.name} of {agent.get_full_name()}",
        value=token,
        told=f"It may: {row.scope_names}. The agent sends it as the header “Authorization: Token …”.",
        until=row.expiry,
        back=reverse("labs:member", args=[lab.pk, agent.pk]),
    )


@require_POST
def end_agent_token(request: HttpRequest, pk: int, member: int, token_key: str) -> HttpResponse:
    """End a token of an agent."""
    lab = _managed(request, pk)
    row = get_object_or_404(ApiToken, user=_member(lab, member), token_key=token_key)
    revoke_agent_token(token=row, author=page_author(request))
    messages.success(request, f"The token {row.name} is revoked.")
    return redirect("labs:member", lab.pk, member)


@require_POST
def close_agent(request: HttpRequest, pk: int, member: int) -> HttpResponse:
    """Close an agent's account, or open a closed one again."""
    lab = _managed(request, pk)
    agent = _member(lab, member)
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    do = close_account if agent.is_active else open_account
    do(user=agent, author=page_author(request), reason=reason)
    done = "open again" if agent.is_active else "closed, and its tokens have ended"
    messages.success(request, f"The account of {agent.get_full_name()} is {done}.")
    return redirect("labs:member", lab.pk, member)


def _members(
    request: HttpRequest,
    lab: Lab,
    *,
    invite_form: InviteForm | None = None,
    add_form: AddForm | None = None,
    agent_form: AgentForm | None = None,
    refusal: ConductorError | None = None,
    status: int = 200,
) -> HttpResponse:
    manages = can(request.user, Ability.MANAGE, lab.pk)
    context: dict[str, Any] = {"lab": lab, "members": members_of(lab), "manages": manages, "refusal": refusal}
    if manages:
        context |= {
            "invitations": open_invitations(lab),
            "invite_form": invite_form or InviteForm(auto_id="id_invite_%s"),
            "add_form": add_form or AddForm(auto_id="id_add_%s"),
            "agent_form": agent_form or AgentForm(auto_id="id_agent_%s"),
            "opened": next(
                (name for name, form in (("invite", invite_form), ("add", add_form), ("agent", agent_form)) if form), ""
            ),
        }
    return render(request, "accounts/members.html", context, status=status)


def _lab(request: HttpRequest, pk: int) -> Lab:
    return get_object_or_404(visible(Lab.objects.all(), request.user, lab="pk"), pk=pk)


def _managed(request: HttpRequest, pk: int) -> Lab:
    """The lab, if it is one's own (else 404) and one may manage it (else NotAllowed)."""
    lab = _lab(request, pk)
    require(request.user, Ability.MANAGE, lab.pk)
    return lab


def _member(lab: Lab, pk: int) -> User:
    """Somebody who belongs to the lab, or an agent of it that has no role just now."""
    people = User.objects.filter(memberships__lab=lab) | User.objects.filter(agent_account__lab=lab)
    return get_object_or_404(people.select_related("agent_account").distinct(), pk=pk)
