"""What a renderer says when an input can't be used."""


class BadInput(Exception):
    """An input that can't be rendered; the message names the file and what is wrong with it, in one sentence."""
