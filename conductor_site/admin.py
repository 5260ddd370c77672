"""The admin site itself, and the admin of accounts, their links and tokens, and failed sign-ins."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse

from conductor_site.accounts.closing import close_account, open_account
from conductor_site.accounts.invitations import invite
from conductor_site.accounts.passwords import make_password_link
from conductor_site.models import ApiToken, ExternalIdentity, OneTimeLink, SignInFailure
from record.admin import LabAdmin
from record.backoffice import Editable, ReadOnly, ReasonedAction
from record.models import Lab, Role
from record.services import Author

admin.site.unregister(Group)  # roles are memberships of a lab; groups mean nothing here
admin.site.unregister(User)


class LinkAction(ReasonedAction):
    """Makes a one-time link and shows it, this once, in the message about what was done."""

    def __init__(self, verb: str, page: str, make: Callable[[Any, Author, str], str]) -> None:
        super().__init__(verb, None, make)
        self.page, self.make = page, make

    def __call__(self, model_admin: admin.ModelAdmin, request: HttpRequest, queryset: Any) -> Any:
        def carry_out(row: Any, author: Author, reason: str) -> str:
            address = request.build_absolute_uri(reverse(self.page, args=[self.make(row, author, reason)]))
            return f"copy this link now, it is not shown again: {address}"

        this = ReasonedAction(self.verb, None, carry_out)
        return this(model_admin, request, queryset)


def _close(user: User, author: Author, reason: str) -> str:
    close_account(user=user, author=author, reason=reason)
    return "closed; its sessions and tokens have ended"


def _close_confirmed(user: User, author: Author, reason: str) -> str:
    close_account(user=user, author=author, reason=reason, confirmed=True)
    return "closed; its sessions and tokens have ended"


def _open(user: User, author: Author, reason: str) -> str:
    open_account(user=user, author=author, reason=reason)
    return "open again; make a link for a new password"


class AccountForm(forms.ModelForm):
    """What the keeper changes of an account. The installation keeps a keeper who can come in here."""

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        stays = found.get("is_superuser") and found.get("is_staff")
        others = User.objects.filter(is_superuser=True, is_staff=True, is_active=True).exclude(pk=self.instance.pk)
        if self.initial.get("is_superuser") and not stays and not others.exists():
            raise ValidationError(
                f"{self.instance.get_username()} is the last who keeps this installation. Make somebody else a "
                "superuser with staff status first."
            )
        return found


@admin.register(User)
class AccountAdmin(Editable):
    """Accounts are made by invitations, closed and opened with a reason; nobody sets a password for another."""

    form = AccountForm
    list_display = ["username", "first_name", "last_name", "email", "is_active", "is_superuser", "last_login"]
    list_filter = ["is_active", "is_superuser"]
    search_fields = ["username", "first_name", "last_name", "email"]
    ordering = ["username"]
    fields = [
        "username", "first_name", "last_name", "email", "is_active", "is_staff", "is_superuser", "last_login",
        "date_joined",
    ]  # fmt: skip
    readonly_fields = ["username", "is_active", "last_login", "date_joined"]
    actions = [
        LinkAction(
            "make a link for a new password",
            "new-password",
            lambda user, author, reason: make_password_link(user=user, author=author).secret,
        ),
        ReasonedAction("close the account", None, _close),
        ReasonedAction("close the account even if a lab loses its last of a role", None, _close_confirmed),
        ReasonedAction("open the account again", None, _open),
    ]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


admin.site.unregister(Lab)


@admin.register(Lab)
class InvitingLabAdmin(LabAdmin):
    """With the way for a new lab to get its first administrator."""

    actions = [
        LinkAction(
            "invite an administrator",
            "join",
            lambda lab, author, reason: invite(lab=lab, role=Role.ADMINISTRATOR, author=author, note=reason).secret,
        )
    ]


class Removable(ReadOnly):
    """Read, or removed."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_active and request.user.is_superuser


@admin.register(ApiToken)
class ApiTokenAdmin(Removable):
    list_display = ["token_key", "name", "user", "scope_names", "created", "expiry", "last_used_at"]
    list_select_related = ["user"]
    search_fields = ["name", "user__username", "token_key"]
    fields = ["token_key", "name", "user", "scope_names", "created", "expiry", "last_used_at", "made_by"]


@admin.register(OneTimeLink)
class OneTimeLinkAdmin(ReadOnly):
    list_display = ["kind", "lab", "role", "user", "note", "made_by", "made_at", "expires_at", "state"]
    list_filter = ["kind", "lab"]
    list_select_related = ["lab", "user", "made_by"]
    search_fields = ["note", "user__username"]
    exclude = ["digest"]


@admin.register(ExternalIdentity)
class ExternalIdentityAdmin(Removable):
    """Added here to join an account that was made on this site with one of the organisation."""

    list_display = ["issuer", "subject", "user", "seen_at"]
    fields = ["issuer", "subject", "user"]
    autocomplete_fields = ["user"]
    list_select_related = ["user"]
    search_fields = ["subject", "user__username"]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_active and request.user.is_superuser

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "user":
            kwargs["queryset"] = User.objects.filter(agent_account=None)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


@admin.register(SignInFailure)
class SignInFailureAdmin(Removable):
    list_display = ["at", "username", "address"]
    search_fields = ["username", "address"]
