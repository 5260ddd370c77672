"""What the task cluster runs of jobs: nudges, which may come twice, late or never."""

from jobs import clusters


def drive_cluster(target_id: int) -> int:
    """Do what is due at one cluster."""
    return clusters.drive_cluster(target_id)
