"""What a part says when it can't be tried."""


class LeftOut(Exception):
    """This part can't be tried here; the words say why."""
