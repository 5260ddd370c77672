"""What the admin of every app is made of: rows that are read, and actions that call services with a reason.

The admin is for superusers, who keep the installation and see every lab. Seeing is all that this gives them: an action
asks the same policy as pages and API, so whoever acts needs the role in the lab.
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from record.access import require
from record.errors import ConductorError
from record.forms import OwedReasonForm
from record.models import Door
from record.services import Author

MOST_AT_ONCE = 100


class ReadOnly(admin.ModelAdmin):
    """Rows are shown, never added, changed or deleted here: they change by services alone."""

    show_full_result_count = False
    list_per_page = 50
    view_on_site = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class Editable(admin.ModelAdmin):
    """Rows that the installation's keeper sets up; what others refer to is archived, never deleted."""

    show_full_result_count = False
    list_per_page = 50
    view_on_site = False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(admin.TabularInline):
    """Rows that belong to another, shown beside it."""

    extra = 0
    can_delete = False
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReasonedAction:
    """An admin action: asks for a reason on a page of its own, then calls `carry_out(row, author, reason)` a row.

    Without an `ability` the service itself asks who may. With `asks` false it acts at once, and the reason is empty:
    for what is merely tried again.
    Every row is a transaction of the service's own; a refusal is shown in its words and the others go on.
    """

    template: ClassVar[str] = "admin/confirm_with_reason.html"

    def __init__(
        self,
        verb: str,
        ability: str | None,
        carry_out: Callable[[Any, Author, str], Any],
        *,
        lab_of: Callable[[Any], int] = lambda row: row.lab_id,
        done: str = "done",
        asks: bool = True,
    ) -> None:
        self.verb, self.ability, self.carry_out = verb, ability, carry_out
        self.lab_of, self.done, self.asks = lab_of, done, asks
        self.__name__ = verb.replace(" ", "_")
        self.short_description = f"{verb[0].upper()}{verb[1:]}{' …' if asks else ''}"

    def __call__(
        self, model_admin: admin.ModelAdmin, request: HttpRequest, queryset: QuerySet[Any]
    ) -> TemplateResponse | None:
        rows = list(queryset[: MOST_AT_ONCE + 1])
        if len(rows) > MOST_AT_ONCE:
            model_admin.message_user(request, f"Choose at most {MOST_AT_ONCE} at once.", messages.ERROR)
            return None
        if not self.asks:
            self._carry_out_all(model_admin, request, rows, "")
            return None
        form = OwedReasonForm(request.POST if "confirmed" in request.POST else None)
        if not form.is_valid():
            return self._ask(model_admin, request, rows, form)
        self._carry_out_all(model_admin, request, rows, form.cleaned_data["reason"])
        return None

    def _ask(
        self, model_admin: admin.ModelAdmin, request: HttpRequest, rows: Iterable[Model], form: OwedReasonForm
    ) -> TemplateResponse:
        context = model_admin.admin_site.each_context(request) | {
            "title": self.short_description.removesuffix(" …"),
            "opts": model_admin.model._meta,
            "action": self.__name__,
            "checkbox": ACTION_CHECKBOX_NAME,
            "rows": rows,
            "form": form,
        }
        return TemplateResponse(request, self.template, context)

    def _carry_out_all(
        self, model_admin: admin.ModelAdmin, request: HttpRequest, rows: Iterable[Any], reason: str
    ) -> None:
        for row in rows:
            try:
                if self.ability is not None:
                    require(request.user, self.ability, self.lab_of(row))
                answer = self.carry_out(row, Author.person(request.user, Door.ADMIN), reason)  # type: ignore[arg-type]
            except ConductorError as error:
                model_admin.message_user(request, f"{row}: {error.message}", messages.ERROR)
            else:
                said = answer if isinstance(answer, str) else self.done
                model_admin.message_user(request, f"{row}: {said}", messages.SUCCESS)


def short(text: str, length: int = 80) -> str:
    """The beginning of a text, for a column."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
