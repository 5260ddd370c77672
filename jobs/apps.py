from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from jobs import final

        final.register("jobs.asked", "jobs.agents.answering:ASKED")
