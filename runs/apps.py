from django.apps import AppConfig

CHECKPOINTS = ("setup", "alignment_qc", "picks_qc", "refine")


class RunsConfig(AppConfig):
    name = "runs"

    def ready(self) -> None:
        from gates import protocols, subjects
        from jobs import alongside, final
        from record import copies
        from record.notices import sights

        copies.register("runs.services.striking:clear_reasons")
        alongside.register("runs.sweep:AT_CLUSTER")
        final.register("runs.step_ended", "runs.services.ending:STEP_ENDED")
        sights.register("run", "runs.noticing:RUN")
        sights.register("phase", "runs.noticing:PHASE")
        sights.register("tilt_series", "runs.noticing:SERIES")
        subjects.register("phase", "runs.gatekeeping:KEEPER")
        for key in CHECKPOINTS:
            protocols.register(key, f"runs.checkpoints.{key}:PROTOCOL")
