"""What a trigger is, whatever the database."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Trigger:
    """One trigger: the statements that make and remove it, and what the database says of it when it is as it should."""

    name: str
    table: str
    create: tuple[str, ...]
    drop: str
    installed: str
