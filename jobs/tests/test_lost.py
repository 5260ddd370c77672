"""A job of which nothing is known any more: who may say that it has ended, and what is kept of it."""

from collections.abc import Callable

import pytest

from jobs.lost import settle_lost
from jobs.models import Job
from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import Decision, Event
from record.services import Author
from record.tests.factories import People

pytestmark = pytest.mark.django_db
REASON = "the node burnt down"


def test_a_lost_job_is_declared_ended(plan: Callable[..., Job], people: People) -> None:
    job = plan(on_final="somebody.follows")
    author = Author.person(people.administrator, "web")
    with pytest.raises(InvalidTransition, match="only a lost job"):
        settle_lost(job=job, author=author, reason=REASON)
    Job.objects.update(state="lost")
    with pytest.raises(BadInput):
        settle_lost(job=job, author=author, reason=" ")

    settle_lost(job=job, author=author, reason=REASON)

    job.refresh_from_db()
    assert (job.state, job.final_handled) == ("failed", False)
    assert job.reason.endswith(REASON)
    assert Decision.objects.get().verdict == "declare_ended"
    assert Event.objects.filter(kind="job.settle").count() == 1


@pytest.mark.parametrize("who", ["viewer", "operator", "reviewer", "outsider"])
def test_only_an_administrator_of_the_lab_declares_it(plan: Callable[..., Job], people: People, who: str) -> None:
    """By whichever door: the service itself refuses."""
    job = plan()
    Job.objects.update(state="lost")
    with pytest.raises(NotAllowed):
        settle_lost(job=job, author=Author.person(people[who], "api"), reason=REASON)
    job.refresh_from_db()
    assert (job.state, Decision.objects.count()) == ("lost", 0)
