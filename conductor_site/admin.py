"""The admin site itself, and the admin of API tokens and failed sign-ins."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group
from django.http import HttpRequest

from conductor_site.models import ApiToken, SignInFailure
from record.backoffice import ReadOnly

admin.site.unregister(Group)  # roles are memberships of a lab; groups mean nothing here


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


@admin.register(SignInFailure)
class SignInFailureAdmin(Removable):
    list_display = ["at", "username", "address"]
    search_fields = ["username", "address"]
