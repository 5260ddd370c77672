"""Where each page and door is."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from conductor_site import views
from conductor_site.accounts import urls as accounts
from conductor_site.accounts import views as account_views

admin.autodiscover()  # here, since only processes that serve pages need it

urlpatterns = [
    path("", views.home, name="home"),
    path("sign-in/", views.SignIn.as_view(), name="login"),
    path("sign-out/", LogoutView.as_view(), name="logout"),
    path("account/", include((accounts.account, "account"))),
    path("labs/", include((accounts.labs, "labs"))),
    path("join/<str:secret>/", account_views.join, name="join"),
    path("sign-in/forgotten/", account_views.forgotten, name="forgotten"),
    path("sign-in/organisation/", account_views.organisation, name="oidc-begin"),
    path("sign-in/organisation/return/", account_views.organisation_return, name="oidc-callback"),
    path("new-password/<str:secret>/", account_views.new_password, name="new-password"),
    path("runs/", include("runs.urls")),
    path("gates/", include("gates.urls")),
    path("decisions/", include("record.urls")),
    path("notices/", include("record.notices.urls")),
    path("", include("jobs.urls")),
    path("healthz", views.healthz, name="healthz"),
    path("metrics", views.metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/", include("conductor_site.api.urls")),
]

handler500 = "conductor_site.views.server_error"
