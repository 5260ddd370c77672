"""What is asked each second finds gates by the index of those in progress, however many have ended."""

import pytest
from django.db import connection

from gates.models import Gate
from gates.querysets import GateQuerySet


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's query plans")
@pytest.mark.parametrize("select", ["waiting", "overdue", "to_escalate", "to_apply"])
def test_sweeps_and_inbox_use_the_index_of_what_is_in_progress(select: str) -> None:
    gates: GateQuerySet = getattr(Gate.objects, select)()
    assert "gate_in_progress" in gates.explain()
