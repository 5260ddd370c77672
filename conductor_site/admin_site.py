"""The admin site: for those who keep the installation."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache


class ConductorAdmin(admin.AdminSite):
    """Open to active superusers alone, since it crosses the walls between labs and its targets name folders and shell
    lines that run on the host. It has no sign-in of its own: the site's is used.
    """

    site_header = "Conductor: installation"
    site_title = "Conductor"
    index_title = "What the installation keeps"
    site_url = "/"

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active and request.user.is_staff and request.user.is_superuser

    @method_decorator(never_cache)
    @method_decorator(login_not_required)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """To the site's sign-in; a person who is signed in and may not come here is told so."""
        onward = request.GET.get("next", "")
        if not url_has_allowed_host_and_scheme(onward, {request.get_host()}, request.is_secure()):
            onward = reverse("admin:index")
        if self.has_permission(request):
            return HttpResponseRedirect(onward)
        if request.user.is_authenticated:
            raise PermissionDenied("The admin is for superusers, who keep this installation. Ask one of them.")
        return redirect_to_login(onward)
