from django.apps import AppConfig


class ConductorSiteConfig(AppConfig):
    name = "conductor_site"
    verbose_name = "Site"
