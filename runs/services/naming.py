"""What runs and species may be called."""

import unicodedata

from record.errors import BadInput
from runs.pipeline.spec import SPECIES_LABEL

NAME_CHARS = 120
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def clean_run_name(name: str) -> str:
    """The name, trimmed, in one Unicode form; BadInput, in words, for one that can't be shown as it is."""
    name = unicodedata.normalize("NFC", " ".join(name.strip().split(" ")))
    if not name:
        raise BadInput("Give the run a name.")
    if len(name) > NAME_CHARS:
        raise BadInput(f"The run's name has {len(name)} characters; at most {NAME_CHARS} fit.")
    for char in name:
        if char in _BIDI or (unicodedata.category(char)[0] in "CZ" and char != " "):
            raise BadInput(
                f"The run's name holds {unicodedata.name(char, f'the character U+{ord(char):04X}')}: leave it out."
            )
    return name


def clean_labels(labels: list[str]) -> list[str]:
    """The species labels, trimmed; BadInput for one that can't name files, or that is there twice."""
    cleaned = [label.strip() for label in labels]
    for label in cleaned:
        if not SPECIES_LABEL.match(label):
            raise BadInput(f"{label!r} can't be a species' label: use 1 to 32 of A-Z a-z 0-9 _.")
        if cleaned.count(label) > 1:
            raise BadInput(f"The species {label} is named twice.")
    return cleaned
