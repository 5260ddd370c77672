"""The evidence store: files under their SHA-256, written whole or not at all, nothing that a browser would run."""

import fcntl
import hashlib
import json
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from django.conf import settings
from django.db import connection

from gates.errors import EvidenceLost, TooLarge
from gates.models import Evidence, EvidenceKind
from record.errors import AdapterError, BadInput
from record.shared import seen

MAX_PIECE_BYTES = 16 * 1024 * 1024
MAX_GATE_BYTES = 256 * 1024 * 1024
MAX_PIECES = 3000  # so that their names and hashes fit into one decision
MAX_PICTURE_SIDE_PX = 20_000
MAX_PICTURE_PX = 64_000_000  # a browser takes 4 bytes for each

PNG, JPEG, JSON_TYPE = "image/png", "image/jpeg", "application/json"
TSV, CSV, TEXT = "text/tab-separated-values", "text/csv", "text/plain"
PICTURES, TABLES = frozenset({PNG, JPEG}), frozenset({TSV, CSV, TEXT, JSON_TYPE})
ALLOWED: dict[str, frozenset[str]] = {
    EvidenceKind.IMAGE: PICTURES,
    EvidenceKind.STACK: PICTURES,
    EvidenceKind.CURVE: PICTURES,
    EvidenceKind.TABLE: TABLES,
    EvidenceKind.LOG: frozenset({TEXT}),
}
DIGEST = re.compile(r"[0-9a-f]{64}")
ASIDE = ".aside"
SCRATCH = re.compile(r"\.[0-9a-f]{64}\.[0-9]+\.[0-9a-f]{8}")
_BY_SUFFIX = {".tsv": TSV, ".csv": CSV, ".txt": TEXT, ".log": TEXT, ".json": JSON_TYPE}

# Markers of a frame's header, which holds height and width (ITU-T T.81, table B.1).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# What WHATWG's MIME sniffing standard takes for HTML or XML at the head of a text, and anything that looks like a tag.
_ACTIVE = re.compile(rb"\A[\s\xef\xbb\xbf]*<[!?/a-zA-Z]|<(?:script|svg|html|iframe|body)\b", re.IGNORECASE)
_SNIFFED_BYTES = 2048
_INCOMING = ".incoming."


@dataclass(frozen=True)
class Stored:
    """A file that lies in the store."""

    sha256: str
    size_bytes: int
    media_type: str


def put(data: bytes, *, name: str, kind: str) -> Stored:
    """Keep a piece of evidence that was a file called `name`; the same bytes twice are one file.

    BadInput, in words, for what is too large, of no kind that is kept, or not fit for `kind` (an EvidenceKind).
    AdapterError where the store's disk fails.
    """
    if len(data) > MAX_PIECE_BYTES:
        raise BadInput(f"{name} has {len(data)} bytes; evidence may have {MAX_PIECE_BYTES} at most.")
    media_type = _media_type(data, name, kind)
    digest = hashlib.sha256(data).hexdigest()
    path = path_of(digest)
    try:
        if not _kept(path, len(data)):
            _write(path, data)
    except OSError as error:
        raise AdapterError(f"The evidence store can't keep {name}: {error.strerror}.", transient=True) from error
    return Stored(digest, len(data), media_type)


class Incoming:
    """A piece on its way into the store: written bit by bit to a file of the store's own, which is then moved.

    `with Incoming(name) as incoming:` removes that file at the end, unless it was kept. Raises as `put` does.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.size_bytes = 0
        self._hash = hashlib.sha256()

    def __enter__(self) -> "Incoming":
        root = _own_root()
        self._path = root / f"{_INCOMING}{os.getpid()}.{os.urandom(8).hex()}"
        with self._told():
            root.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._handle = self._path.open("x+b")
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk does not take what was left to write, and nobody wants that any more
            self._handle.close()
        self._path.unlink(missing_ok=True)

    def write(self, chunk: bytes) -> None:
        """Add bytes; TooLarge as soon as there are too many."""
        self.size_bytes += len(chunk)
        if self.size_bytes > MAX_PIECE_BYTES:
            raise TooLarge(f"{self.name} is larger than evidence may be: {MAX_PIECE_BYTES} bytes. It was not kept.")
        self._hash.update(chunk)
        with self._told():
            self._handle.write(chunk)

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of what has been written so far."""
        return self._hash.hexdigest()

    def keep(self, *, kind: str) -> Stored:
        """Move the whole file to its place, once its bytes are seen to be fit for `kind`."""
        with self._told():
            self._handle.seek(0)
            data = self._handle.read()
        media_type = _media_type(data, self.name, kind)
        path = path_of(self.sha256)
        with self._told():
            if not _kept(path, self.size_bytes):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
                _settle(self._handle, self._path, path)
        return Stored(self.sha256, self.size_bytes, media_type)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AdapterError(
                f"The evidence store can't keep {self.name}: {error.strerror}.", transient=True
            ) from error


def read_evidence(evidence: Evidence) -> bytes:
    """The bytes that were shown; EvidenceLost, in words, where the file is gone or not what it was."""
    try:
        data = path_of(evidence.sha256).read_bytes()
    except FileNotFoundError as error:
        raise EvidenceLost(
            f"{evidence.name} is missing from the evidence store; restore the store from a backup. The record still "
            f"holds its SHA-256 ({evidence.sha256[:12]}…).{_elsewhere()}"
        ) from error
    except OSError as error:
        raise AdapterError(
            f"{evidence.name} can't be read from the store: {error.strerror}.", transient=True
        ) from error
    if hashlib.sha256(data).hexdigest() != evidence.sha256:
        raise EvidenceLost(
            f"{evidence.name} was altered in the evidence store since it was shown, so it is not served; restore the "
            f"store from a backup.",
            code="evidence_altered",
        )
    return data


@contextmanager
def locked(*, shared: bool) -> Iterator[None]:
    """Hold the store: several may read it at once (`shared`) while nobody clears away; putting needs no lock.

    What one who was killed while he cleared away had moved aside is put back first.
    """
    root = _own_root()
    root.mkdir(parents=True, exist_ok=True, mode=0o750)
    with (root / ".lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        _put_back(root)
        yield


def _put_back(root: Path) -> None:
    """Nobody clears away now: so what lies aside was left there, and may have been put again just before."""
    for aside in root.glob(f"[0-9a-f][0-9a-f]/.*{ASIDE}"):
        with suppress(FileNotFoundError):  # another reader was quicker
            with suppress(FileExistsError):  # it was put anew, and is as new as its file says
                os.link(aside, aside.with_name(aside.name[1 : -len(ASIDE)]))
            aside.unlink()


def put_before(before: datetime) -> Iterator[str]:
    """Digests of the files that were put for the last time before that time (aware)."""
    for folder in _own_root().glob("[0-9a-f][0-9a-f]"):
        for path in folder.iterdir():
            if DIGEST.fullmatch(path.name) and _put_at(path) < before:
                yield path.name


def drop_scratch(before: datetime) -> None:
    """Remove what those left who were killed while they wrote, before that time (aware)."""
    for path in _own_root().glob("[0-9a-f][0-9a-f]/.*"):
        with suppress(FileNotFoundError):  # it has been finished
            if SCRATCH.fullmatch(path.name) and _put_at(path) < before:
                path.unlink()


def forget_incoming(before: datetime) -> None:
    """Remove what came in before that time (aware) and was never kept, since its process died."""
    for path in _own_root().glob(f"{_INCOMING}*"):
        if _put_at(path) < before:
            path.unlink(missing_ok=True)


def size_of(sha256: str) -> int:
    """Bytes of a file of the store; 0 where it is not there."""
    path = path_of(sha256)
    return path.stat().st_size if path.exists() else 0


def discard(sha256: str, *, before: datetime) -> int:
    """Remove a file unless it was put (again) since `before`, an aware time; the bytes that became free.

    It is moved aside first: whoever puts the same bytes at this moment either has marked the file as new by then, and
    it is put back, or finds nothing and writes it anew.
    """
    path, aside = path_of(sha256), path_of(sha256).with_name(f".{sha256}{ASIDE}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return 0
    if _put_at(aside) >= before:
        aside.rename(path)
        return 0
    size = aside.stat().st_size
    aside.unlink()
    return size


def _put_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def open_evidence(evidence: Evidence) -> BytesIO:
    """The piece as a file that can be read, checked against its SHA-256; raises as `read_evidence` does."""
    return BytesIO(read_evidence(evidence))


def path_of(sha256: str, root: Path | None = None) -> Path:
    """Where the file of that digest lies, in the store or in another one (a backup)."""
    return (root or _own_root()) / sha256[:2] / sha256


def _elsewhere() -> str:
    """Where else it may be, if each of several hosts may keep evidence of its own."""
    if settings.SHARED_DIR or connection.vendor != "postgresql":
        return ""
    return " Where several hosts use this database, it may lie on another: let them share a folder (CONDUCTOR_SHARED)."


def _own_root() -> Path:
    """The store's folder; AdapterError where hosts share it and this one can't see it."""
    return seen(Path(settings.EVIDENCE_ROOT))


def copy(sha256: str, to: Path, *, source: Path | None = None) -> bool:
    """Copy a file into another store, from ours or from `source`, unless it is there intact.

    False where what is copied is gone or is not what its name says. Raises OSError where it can't be written.
    """
    there = path_of(sha256, to)
    if there.exists() and hashlib.sha256(there.read_bytes()).hexdigest() == sha256:
        return True
    try:
        data = path_of(sha256, source).read_bytes()
    except FileNotFoundError:
        return False
    if hashlib.sha256(data).hexdigest() != sha256:
        return False
    _write(there, data)
    return True


def _media_type(data: bytes, name: str, kind: str) -> str:
    media_type = sniff(data, name)
    if media_type not in ALLOWED[kind]:
        raise BadInput(f"{name} is {media_type}, which can't be shown as {EvidenceKind(kind).label}.")
    return media_type


def sniff(data: bytes, name: str) -> str:
    """The media type by what the bytes are; the file's ending only tells texts apart. BadInput for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _checked_png(data, name)
    if data.startswith(b"\xff\xd8\xff"):
        return _checked_jpeg(data, name)
    if not data:
        raise BadInput(f"{name} is empty.")
    return _sniff_text(data, name)


def _checked_png(data: bytes, name: str) -> str:
    if len(data) < 33 or data[12:16] != b"IHDR" or b"IEND" not in data[-16:]:
        raise BadInput(f"{name} is a PNG that was cut off.")
    width, height = struct.unpack(">II", data[16:24])
    _check_extent(name, width, height)
    return PNG


def _checked_jpeg(data: bytes, name: str) -> str:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            _check_extent(name, width, height)
            return JPEG
        at += 1 if marker == 0xFF else 2 + length
    raise BadInput(f"{name} is a JPEG without a size: it was cut off, or is none.")


def _check_extent(name: str, width: int, height: int) -> None:
    """A few bytes can ask a browser for gigabytes: BadInput for a picture that a phone could not show."""
    if not (min(width, height) > 0 and max(width, height) <= MAX_PICTURE_SIDE_PX):
        raise BadInput(f"{name} is {width} x {height} pixels; {MAX_PICTURE_SIDE_PX} a side is the most.")
    if width * height > MAX_PICTURE_PX:
        raise BadInput(
            f"{name} is {width} x {height} pixels, {width * height / 1e6:.0f} million; "
            f"{MAX_PICTURE_PX // 1_000_000} million are the most."
        )


def _sniff_text(data: bytes, name: str) -> str:
    media_type = _BY_SUFFIX.get(PurePosixPath(name).suffix.lower())
    if media_type is None:
        raise BadInput(f"{name} is of no kind that is kept: PNG, JPEG, TSV, CSV, JSON or plain text.")
    if _ACTIVE.search(data[:_SNIFFED_BYTES]):
        raise BadInput(f"{name} looks like HTML, SVG or XML; such content is not kept as evidence.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is no UTF-8 text (byte {error.start}).") from error
    if "\x00" in text:
        raise BadInput(f"{name} is no text: it holds zero bytes.")
    if media_type == JSON_TYPE:
        _check_json(text, name)
    return media_type


def _check_json(text: str, name: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is no JSON text: {error}.") from error


def _intact(path: Path, size: int) -> bool:
    """Whether the file is there whole: a restored store may hold a cut one, which is then written again."""
    return path.exists() and path.stat().st_size == size and hashlib.sha256(path.read_bytes()).hexdigest() == path.name


def _kept(path: Path, size: int) -> bool:
    """Whether the file is there whole; it is then as good as new, so that a clean-up leaves it (see `discard`)."""
    if not _intact(path, size):
        return False
    try:
        os.utime(path)
    except FileNotFoundError:  # cleared away just now
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        with scratch.open("xb") as handle:
            handle.write(data)
            _settle(handle, scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def _settle(handle: BinaryIO, scratch: Path, path: Path) -> None:
    """Give a written file its name, so that it is there whole or not at all, whatever fails."""
    handle.flush()
    os.fsync(handle.fileno())
    scratch.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
