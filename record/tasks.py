"""What the task cluster runs of the record: nudges, which may come twice, late or never."""

from record.notices import sending


def send_due() -> int:
    """Send the notices that are due; how many were sent."""
    return sending.send_due()
