"""Puts our admin site in the place of Django's."""

from django.contrib.admin.apps import SimpleAdminConfig


class ConductorAdminConfig(SimpleAdminConfig):
    """Without finding the admin of each app at the start: `conduct` and its workers never need it, pages do (urls)."""

    default_site = "conductor_site.admin_site.ConductorAdmin"
