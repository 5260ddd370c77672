from django.apps import AppConfig


class GatesConfig(AppConfig):
    name = "gates"
