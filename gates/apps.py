from django.apps import AppConfig


class GatesConfig(AppConfig):
    name = "gates"

    def ready(self) -> None:
        from gates import protocols
        from jobs import final

        protocols.register("generic", "gates.generic:PROTOCOL")
        final.register("gates.prepared", "gates.gathering:PREPARED")
