"""Small pictures for tests."""

from io import BytesIO


def grey_png(width: int = 8, height: int = 8) -> bytes:
    """A grey PNG."""
    from PIL import Image

    out = BytesIO()
    Image.new("L", (width, height), 128).save(out, "PNG")
    return out.getvalue()
