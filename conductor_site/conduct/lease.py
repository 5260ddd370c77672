"""Which of several `conduct`s does what is due for all: one row, taken over when its holder is gone."""

from datetime import timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from jobs import processes
from jobs.models import ConductLease

LEASE_S = 30
BEAT_S = 10


class TickLease:
    """The lease that one `conduct` holds. Beaten every 10 s, so that a dead holder costs at most 30 s."""

    def __init__(self, holder: str, name: str = "tick") -> None:
        self.name = name
        self.holder = holder
        self._held = False
        self._beat_at_s = float("-inf")

    def hold(self) -> bool:
        """Whether it is ours now; asks the database every 10 s only."""
        now_s = processes.now_s()
        if now_s - self._beat_at_s >= BEAT_S:
            self._held = self._take()
            self._beat_at_s = now_s
        return self._held

    def release(self) -> None:
        """Let another take it at once."""
        if self._held:
            ConductLease.objects.filter(name=self.name, holder=self.holder).update(expires_at=timezone.now())
            self._held = False

    def _take(self) -> bool:
        now = timezone.now()
        fresh = {"holder": self.holder, "expires_at": now + timedelta(seconds=LEASE_S), "beat_at": now}
        free = Q(holder=self.holder) | Q(expires_at__lte=now)
        if ConductLease.objects.filter(free, name=self.name).update(**fresh):
            return True
        row = ConductLease.objects.filter(name=self.name).first()
        if row is None:
            return self._create(fresh)
        if processes.of_this_boot(row.holder) and not processes.is_alive(row.holder):
            return bool(ConductLease.objects.filter(name=self.name, holder=row.holder).update(**fresh))
        return False

    def _create(self, fresh: dict[str, object]) -> bool:
        try:
            with transaction.atomic():
                ConductLease.objects.create(name=self.name, **fresh)
        except IntegrityError:
            return False
        return True
