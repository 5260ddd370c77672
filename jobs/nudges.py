"""Nudges: tasks by which an installation's task cluster is told that something is due. The rows are the queue."""

from django.conf import settings
from django.utils import timezone


def nudge(task: str, *arguments: str | int, timeout_s: int | None = None) -> None:
    """Put `task` (a dotted path) into this installation's queue, in the caller's transaction. Ask `waits` first.

    Its worker is ended after `timeout_s`; without, after the time that all tasks have.
    """
    from django_q.tasks import async_task

    limit = {} if timeout_s is None else {"timeout": timeout_s}
    async_task(task, *arguments, q_options={"save": False} | limit)


def waits(task: str, *arguments: str | int) -> bool:
    """Whether the same nudge waits there already: while no task cluster runs, nobody takes one out.

    One that a worker has taken does not count, since that worker may have died with it.
    """
    from django_q.models import OrmQ

    rows = OrmQ.objects.filter(key=settings.Q_CLUSTER["cluster_name"], lock__lte=timezone.now())
    tasks = [row.task for row in rows.iterator()]  # one that was signed by another key has neither of the two
    return (task, arguments) in [(each.get("func"), tuple(each.get("args", ()))) for each in tasks]
