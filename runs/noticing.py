"""What notices show of runs, phases and tilt series: their pages, and why a phase failed."""

from uuid import UUID

from django.contrib.auth.models import User
from django.urls import reverse

from record.models import Event
from record.notices.sights import Sight
from runs.models import Phase, Run, TiltSeries
from runs.states import PhaseState


class RunLooker:
    """See record.notices.sights.Looker."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        run = Run.objects.filter(uuid=uuid).first()
        return Sight(reverse("runs:detail", args=[run.pk])) if run else Sight()

    def needless(self, event: Event, reader: User | None) -> str:
        return ""


class PhaseLooker(RunLooker):
    """A phase says why it failed, as far as its message does not."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        phase = Phase.objects.filter(uuid=uuid).first()
        if phase is None:
            return Sight()
        lines = (phase.reason,) if phase.state == PhaseState.FAILED and phase.reason else ()
        return Sight(reverse("runs:phase", args=[phase.pk]), lines)


class SeriesLooker(RunLooker):
    """A tilt series has no page; its run has."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        series = TiltSeries.objects.filter(uuid=uuid).first()
        return Sight(reverse("runs:detail", args=[series.run_id])) if series else Sight()


RUN, PHASE, SERIES = RunLooker(), PhaseLooker(), SeriesLooker()
