"""What a phase says when it can't go on."""


class TomoError(Exception):
    """Something a person can mend: a missing file, a bad value, too few particles."""
