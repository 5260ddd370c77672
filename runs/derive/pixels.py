"""Pixel sizes in Angstrom, as files of the field state them. Each reader takes the file's first bytes.

A reader gives every size that it finds once, 0 and what is missing included: what that means is the audit's to say.
Raises Unstated, in words, where the file is not what its name says.
"""

import io
import re
import tempfile
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable

HEADER_BYTES = 1024  # of an MRC file
MDOC_BYTES = 256 * 1024
STAR_BYTES = 512 * 1024
XML_BYTES = 8 * 1024 * 1024

_SPACING = re.compile(r"^\s*PixelSpacing\s*=\s*(\S+)\s*$", re.MULTILINE)


class Unstated(Exception):
    """The file can't be read for its pixel size; in words."""


def mdoc_sizes(data: bytes) -> list[float]:
    """PixelSpacing of a SerialEM mdoc: of the images as they were stored, binned or not."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unstated("it is no UTF-8 text") from error
    return _distinct(text_sizes(_SPACING.findall(text)))


def warp_xml_sizes(data: bytes) -> list[float]:
    """PixelSize of the CTF of a WARP tilt series or frame series."""
    found = _PixelSizes()
    parser = ET.XMLParser(target=found)  # noqa: S314  # a document type, and with it every entity, is refused
    try:
        parser.feed(data)
        if len(data) < XML_BYTES:  # else only its beginning was read
            parser.close()
    except ET.ParseError as error:
        raise Unstated(f"it is no XML: {error}") from error
    return _distinct(text_sizes(found.texts))


def mrc_sizes(data: bytes) -> list[float]:
    """The voxel size of an MRC header along x, and along y or z where that is another."""
    from mrcfile.mrcinterpreter import MrcInterpreter

    if len(data) < HEADER_BYTES:
        raise Unstated(f"it has {len(data)} bytes, less than the {HEADER_BYTES} of an MRC header")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that are irregular, as many are
            voxel = MrcInterpreter(io.BytesIO(data[:HEADER_BYTES]), permissive=True, header_only=True).voxel_size
    except (ValueError, OSError) as error:
        raise Unstated(f"it is no MRC volume: {error}") from error
    return _distinct([float(voxel[axis]) for axis in ("x", "y", "z")])


def star_sizes(column: str) -> Callable[[bytes], list[float]]:
    """A reader of this column of a STAR file's tables."""

    def read(data: bytes) -> list[float]:
        found = [value for table in _star_tables(data) for value in _column(table, column)]
        return _distinct(text_sizes(found))

    return read


def text_sizes(texts: list[str]) -> list[float]:
    """Numbers of texts; Unstated for what is none."""
    try:
        return [float(text) for text in texts]
    except ValueError as error:
        raise Unstated(f"it states a pixel size that is no number: {error}") from error


def _star_tables(data: bytes) -> list[object]:
    import starfile

    whole = data[: data.rfind(b"\n") + 1]  # its last line may be cut
    with tempfile.NamedTemporaryFile(suffix=".star") as file:
        file.write(whole)
        file.flush()
        try:
            return list(starfile.read(file.name, always_dict=True).values())
        except Exception as error:  # the parser raises whatever the text provokes; all of it means "not a STAR file"
            raise Unstated(f"it is no STAR file that can be read: {error}") from error


def _column(table: object, column: str) -> list[str]:
    if isinstance(table, dict):
        return [str(table[column])] if column in table else []
    columns = getattr(table, "columns", ())
    return [str(value) for value in table[column].unique()] if column in columns else []  # type: ignore[index]


def _distinct(sizes: list[float]) -> list[float]:
    """Each once, in order; those that differ by less than a thousandth are one."""
    found: list[float] = []
    for size in sizes:
        if not any(abs(size - other) <= abs(other) / 1000 for other in found):
            found.append(size)
    return found


class _PixelSizes:
    """Takes what the parser meets, and keeps the pixel sizes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "Param" and attributes.get("Name") == "PixelSize":
            self.texts.append(attributes.get("Value", ""))

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ET.ParseError(f"it has a document type ({name}), which no file of WARP has")
