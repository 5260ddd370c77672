from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RecordConfig(AppConfig):
    name = "record"

    def ready(self) -> None:
        from record import checks, triggers  # noqa: F401  (the checks register themselves)

        post_migrate.connect(triggers.install_after_migrate, sender=self, dispatch_uid="record.triggers")
