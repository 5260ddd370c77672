from django.apps import AppConfig


class GatesConfig(AppConfig):
    name = "gates"

    def ready(self) -> None:
        from gates import protocols
        from jobs import final
        from record import copies

        protocols.register("generic", "gates.generic:PROTOCOL")
        copies.register("gates.services.striking:clear_ballots")
        final.register("gates.prepared", "gates.services.preparing:PREPARED")
