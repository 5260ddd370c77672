"""Puts our admin site in the place of Django's."""

from django.contrib.admin.apps import AdminConfig


class ConductorAdminConfig(AdminConfig):
    default_site = "conductor_site.admin_site.ConductorAdmin"
