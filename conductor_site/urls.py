"""Where each page and door is."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include("conductor_site.api_urls")),
]
