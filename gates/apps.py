from django.apps import AppConfig


class GatesConfig(AppConfig):
    name = "gates"

    def ready(self) -> None:
        from gates import protocols, subjects
        from jobs import final
        from jobs.agents import backends
        from record import copies
        from record.notices import sights

        protocols.register("generic", "gates.generic:PROTOCOL")
        copies.register("gates.services.striking:clear_ballots")
        backends.register("human", "gates.people_asked:HUMAN")
        subjects.register("ask", "gates.people_asked:KEEPER")
        sights.register("gate", "gates.noticing:GATE")
        final.register("gates.prepared", "gates.services.preparing:PREPARED")
