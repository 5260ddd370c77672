"""What the task cluster runs: nudges, which may come twice, late or never."""

import os

from django.utils import timezone

from conductor_site.conduct.busy import CLUSTER_VARIABLE
from conductor_site.conduct.due import DueTable
from jobs.models import Pulse
from record.pruning import forget_answers


def pulse(cluster: str) -> None:
    """Show that a worker takes tasks. Each cluster beats its own row, whoever asked."""
    name = os.environ.get(CLUSTER_VARIABLE, cluster)
    Pulse.objects.update_or_create(cluster=name, defaults={"beat_at": timezone.now()})


def sweep() -> int:
    """Do what is due, once a minute: without `conduct` only latency is lost. How many things were done."""
    return DueTable().run() + forget_answers()
