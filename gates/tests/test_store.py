"""Evidence is kept by its SHA-256, whole or not at all, and nothing that a browser would run."""

import os
import resource
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from gates import store
from gates.errors import EvidenceLost
from gates.models import Evidence, EvidenceKind
from gates.tests.doubles import ask
from record.errors import AdapterError, BadInput
from record.models import Lab
from record.shared import MARK

TABLE = b"x\ty\n"


def png(width: int = 2, height: int = 2) -> bytes:
    """A grey PNG of that size (its header's size, at least)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\x00\x7f\x7f" * 2)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int = 2, height: int = 2) -> bytes:
    """The head of a JPEG of that size."""
    frame = struct.pack(">BHH", 8, height, width) + b"\x01\x01\x11\x00"
    return b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\x00" * 10 + b"\xff\xff\xc2\x00\x0b" + frame + b"\xff\xd9"


@pytest.mark.parametrize(
    ("data", "name", "kind", "media_type"),
    [
        (png(), "a.png", "image", "image/png"),
        (png(), "a.txt", "stack", "image/png"),
        (jpeg(), "a.jpg", "curve", "image/jpeg"),
        (b"x\ty\n1\t2\n", "a.tsv", "table", "text/tab-separated-values"),
        (b"x,y\n", "A.CSV", "table", "text/csv"),
        (b'{"a": 1}', "a.json", "table", "application/json"),
        ("Å < 3 and a > b".encode(), "a.log", "log", "text/plain"),
    ],
)
def test_what_is_kept(data: bytes, name: str, kind: str, media_type: str) -> None:
    stored = store.put(data, name=name, kind=kind)

    path = store.path_of(stored.sha256)
    assert (stored.media_type, stored.size_bytes) == (media_type, len(data))
    assert path.read_bytes() == data and path.parent.name == stored.sha256[:2]


@pytest.mark.parametrize(
    ("data", "name", "kind", "told"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "a.svg", "image", "no kind that is kept"),
        (b"<svg onload=alert(1)>", "a.txt", "log", "HTML, SVG or XML"),
        (b"\xef\xbb\xbf \n<!DOCTYPE html>", "a.tsv", "table", "HTML, SVG or XML"),
        (b"<?xml version='1.0'?>", "a.csv", "table", "HTML, SVG or XML"),
        (b"<a href=x>", "a.log", "log", "HTML, SVG or XML"),
        (b"fine\n<ScRiPt>alert(1)</script>", "a.txt", "log", "HTML, SVG or XML"),
        (b"hello", "a.html", "log", "no kind that is kept"),
        (b"GIF89a", "a.gif", "image", "no kind that is kept"),
        (b"%PDF-1.7", "a.pdf", "image", "no kind that is kept"),
        (b"plain", "a.png", "image", "no kind that is kept"),
        (b"x\ty", "a.tsv", "image", "can't be shown as"),
        (png(), "a.png", "table", "can't be shown as"),
        (png()[:40], "a.png", "image", "cut off"),
        (png(30_000, 2), "a.png", "image", "pixels"),
        (png(2, 0), "a.png", "image", "pixels"),
        (png(20_000, 20_000), "a.png", "image", "400 million"),
        (jpeg(60_000, 60_000), "a.jpg", "image", "pixels"),
        (jpeg(10_000, 10_000), "a.jpg", "image", "100 million"),
        (jpeg()[:20], "a.jpg", "image", "without a size"),
        (b"\xff\xd8\xff<svg onload=alert(1)>", "a.jpg", "image", "without a size"),
        (b"", "a.tsv", "table", "empty"),
        (b"\xff\xfe\x00", "a.tsv", "table", "UTF-8"),
        (b"a\x00b", "a.log", "log", "zero bytes"),
        (b"{a: 1}", "a.json", "table", "no JSON"),
    ],
)
def test_what_is_refused_in_words(data: bytes, name: str, kind: str, told: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        store.put(data, name=name, kind=kind)

    assert name in refused.value.message
    assert not Path(settings.EVIDENCE_ROOT).exists()


def test_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_PIECE_BYTES", 10)

    with pytest.raises(BadInput, match="11 bytes"):
        store.put(b"01234567890", name="a.log", kind="log")


def test_the_same_twice_is_one_file(settings: Any) -> None:
    first = store.put(png(), name="a.png", kind="image")
    inode = store.path_of(first.sha256).stat().st_ino

    assert store.put(png(), name="b.png", kind="image") == first
    assert store.path_of(first.sha256).stat().st_ino == inode
    assert len([path for path in Path(settings.EVIDENCE_ROOT).rglob("*") if path.is_file()]) == 1


def test_a_file_that_was_cut_in_the_store_is_written_again() -> None:
    stored = store.put(png(), name="a.png", kind="image")
    store.path_of(stored.sha256).write_bytes(png()[:-5])

    store.put(png(), name="a.png", kind="image")

    assert store.path_of(stored.sha256).read_bytes() == png()


def test_a_full_disk_is_told_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(AdapterError, match="No space left on device") as failed:
        store.put(png(), name="a.png", kind="image")

    assert failed.value.transient
    assert not [path for path in Path(settings.EVIDENCE_ROOT).rglob("*") if path.is_file()]


@pytest.fixture
def evidence(lab: Lab) -> Evidence:
    stored = store.put(b"x\ty\n", name="a.tsv", kind="table")
    return Evidence.objects.create(gate=ask(lab), name="01/scores", kind=EvidenceKind.TABLE, **vars(stored))


def test_what_was_shown_can_be_shown_again(evidence: Evidence) -> None:
    assert store.open_evidence(evidence).read() == b"x\ty\n"


def test_a_missing_file_is_told(evidence: Evidence) -> None:
    store.path_of(evidence.sha256).unlink()

    with pytest.raises(EvidenceLost, match="01/scores is missing from the evidence store") as lost:
        store.open_evidence(evidence)
    assert lost.value.status == 410 and lost.value.code == "evidence_lost"


def test_a_shared_folder_that_is_not_mounted_is_no_empty_one(lab: Lab, settings: Any, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    settings.SHARED_DIR, settings.EVIDENCE_ROOT = shared, shared / "evidence"
    shared.mkdir()
    (shared / MARK).touch()
    stored = store.put(TABLE, name="a.tsv", kind="table")
    evidence = Evidence.objects.create(gate=ask(lab), name="01/scores", kind=EvidenceKind.TABLE, **vars(stored))

    shared.rename(tmp_path / "elsewhere")
    shared.mkdir()

    for act in (lambda: store.put(TABLE, name="a.tsv", kind="table"), lambda: store.read_evidence(evidence)):
        with pytest.raises(AdapterError, match="can't see the folder that all hosts share") as caught:
            act()
        assert caught.value.transient
        assert f"there is no file {MARK} in it. Nothing is lost." in caught.value.message
    assert list(shared.iterdir()) == []  # nothing was kept where no other host would see it
    shared.rmdir()
    (tmp_path / "elsewhere").rename(shared)
    assert store.read_evidence(evidence) == TABLE


def test_an_altered_file_is_not_served(evidence: Evidence) -> None:
    store.path_of(evidence.sha256).write_bytes(b"x\tz\n")

    with pytest.raises(EvidenceLost, match="was altered") as lost:
        store.open_evidence(evidence)
    assert lost.value.code == "evidence_altered"


def test_a_disk_that_is_full_leaves_nothing_of_what_came_in(settings: Any) -> None:
    """Also where the last of it was still to be written: closing the file fails then, too."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with (
            pytest.raises(AdapterError, match=r"can't keep a\.log: File too large"),
            store.Incoming("a.log") as incoming,
        ):
            for _ in range(100):
                incoming.write(b"x" * 100)
            incoming.keep(kind="log")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(Path(settings.EVIDENCE_ROOT).glob(".incoming.*"))
