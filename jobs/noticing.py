"""What notices show of jobs and targets: their pages."""

from uuid import UUID

from django.contrib.auth.models import User
from django.urls import reverse

from jobs.models import Job, Target
from record.models import Event
from record.notices.sights import Sight


class JobLooker:
    """See record.notices.sights.Looker."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        job = Job.objects.filter(uuid=uuid).only("pk", "reason").first()
        return Sight(reverse("jobs:job", args=[job.pk]), (job.reason,) if job.reason else ()) if job else Sight()

    def needless(self, event: Event, reader: User | None) -> str:
        return ""


class TargetLooker(JobLooker):
    """A target has a page of its own."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        target = Target.objects.filter(uuid=uuid).only("pk").first()
        return Sight(reverse("jobs:target", args=[target.pk])) if target else Sight()


JOB, TARGET = JobLooker(), TargetLooker()
