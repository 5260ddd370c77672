"""What a gate keeps of a decision's words, when those are struck from the record."""

from gates.models import Ballot
from record.models import Decision


def clear_ballots(decision: Decision, reason: str) -> None:
    """Empty the ballots with which the person who decided said so, and earlier ones of theirs at the same gate."""
    Ballot.objects.filter(gate__decision=decision, voter=decision.actor).update(reason="", answers={})
