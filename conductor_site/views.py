"""Sign-in, home, health, metrics, and what failed requests end in."""

import logging
import sys
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.db import Error as DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from conductor_site.forms import SignInForm
from conductor_site.health import check_health
from conductor_site.home import look_around
from conductor_site.middleware import error_page, storage_trouble, unavailable
from conductor_site.scraping import may_scrape
from conductor_site.signin import remember_browser
from record.pages import live_page

log = logging.getLogger(__name__)

# How the reasons of Django's CsrfViewMiddleware begin for what came from elsewhere.
FOREIGN = ("Origin checking failed", "Referer checking failed")


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """The sign-in form. A partial's poll that ends up here (the session is over) sends the whole page here."""

    form_class = SignInForm
    template_name = "registration/login.html"
    redirect_authenticated_user = True

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.headers.get("HX-Request") == "true":
            return HttpResponse(status=204, headers={"HX-Redirect": reverse("login")})
        return super().get(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {
            "organisation": settings.OIDC,
            "nobody_yet": not User.objects.exists(),
        }

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_valid(form)
        remember_browser(self.request, response, form.get_user())
        return response


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """What waits for this person, what runs, what went wrong."""
    return live_page(request, page="home.html", part="_home.html", context=look_around(request.user), every_s=10)


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Whether the database, `conduct` and the task workers answer and targets take up work; 503 if one does not.

    Each target is named to whoever may read the metrics.
    """
    try:
        health = check_health(named=may_scrape(request))
    except DatabaseError:
        return JsonResponse({"ok": False, "database": False}, status=503)
    return JsonResponse(health, status=200 if health["ok"] else 503)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Figures for Prometheus, for whoever knows the token or comes from an address that is let in."""
    from conductor_site.metrics import CONTENT_TYPE_LATEST, render_metrics  # 0.1 s, not at every start

    if not (settings.METRICS_TOKEN or settings.METRICS_FROM):
        raise Http404("No metrics are given out: set CONDUCTOR_METRICS_TOKEN or CONDUCTOR_METRICS_FROM.")
    if not may_scrape(request):
        return HttpResponse("The token is wrong, or your address is not let in.\n", "text/plain", status=403)
    try:
        figures = render_metrics()
    except DatabaseError as error:
        log.error("no metrics: the database does not answer (%s)", error)
        return HttpResponse("The database does not answer.\n", "text/plain", status=503)
    return HttpResponse(figures, content_type=CONTENT_TYPE_LATEST)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form whose token no longer fits (signed in anew meanwhile, or cookies are off); its text is kept.

    Not so one that another site has sent: repeating it here, with a token of ours, would leave one press to its doing.
    """
    if reason.startswith(FOREIGN):
        told = f"This came from a page that is not part of {request.get_host()}, so nothing was changed."
        return error_page(request, 403, f"{told} If you did not mean to send anything, close this page.", keep=False)
    return error_page(
        request,
        403,
        "This form was made before you last signed in, or your browser keeps no cookies for this site, "
        "so nothing was changed. Check what you typed and send it again.",
    )


def server_error(request: HttpRequest) -> HttpResponseBase:
    """What nobody foresaw; a database that does not answer before the view was reached is told as such."""
    failure = sys.exc_info()[1]
    if isinstance(failure, Exception) and (words := storage_trouble(failure)):
        return unavailable(request, words)
    context = {
        "status": 500,
        "title": "Something went wrong here",
        "message": "Conductor failed while answering. It has been written to the log, and no half of it was kept. "
        "Go back and try again; if it stays, tell whoever looks after this installation when it happened.",
        "bare": True,
    }
    return HttpResponse(render_to_string("error.html", context), status=500)
