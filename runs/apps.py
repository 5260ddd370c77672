from django.apps import AppConfig

CHECKPOINTS = ("setup", "alignment_qc", "picks_qc", "refine")


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        from gates import protocols, subjects
        from jobs import alongside, final
        from record import copies

        copies.register("runs.services.striking:clear_reasons")
        alongside.register("runs.sweep:AT_CLUSTER")
        final.register("runs.step_ended", "runs.services.ending:STEP_ENDED")
        subjects.register("phase", "runs.gatekeeping:KEEPER")
        for key in CHECKPOINTS:
            protocols.register(key, f"runs.checkpoints.{key}:PROTOCOL")
