"""Selections of deliveries, as adjectives."""

from typing import Any

from django.db import models
from django.utils import timezone


class DeliveryQuerySet(models.QuerySet[Any]):
    def open(self) -> "DeliveryQuerySet":
        """Neither sent nor given up. What is asked each second begins with this, for its index."""
        return self.filter(ended_at=None)

    def due(self) -> "DeliveryQuerySet":
        """To be sent now, over channels that are not left alone; those whose sender's time is over among them."""
        now = timezone.now()
        free = models.Q(channel__closed_until=None) | models.Q(channel__closed_until__lte=now)
        return self.open().filter(free, due_at__lte=now)
