from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"

    def ready(self) -> None:
        from jobs import final
        from record.notices import sights

        final.register("jobs.asked", "jobs.agents.answering:ASKED")
        sights.register("job", "jobs.noticing:JOB")
        sights.register("target", "jobs.noticing:TARGET")
