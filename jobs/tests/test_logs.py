"""Log slices: bounded, safe to show, valid text out of any bytes."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest

from jobs.logs import clean, slice, tail
from jobs.shells import LocalShell
from record.errors import AdapterError

SHELL = LocalShell()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "job.out"


def test_tail_gives_whole_last_lines(log: Path) -> None:
    log.write_text("".join(f"line {n}\n" for n in range(100_000)))

    got = tail(SHELL, str(log), lines=3)

    assert got.text == "line 99997\nline 99998\nline 99999\n"
    assert (got.end, got.size) == (log.stat().st_size, log.stat().st_size)
    assert got.start == got.size - len(got.text)


def test_tail_without_a_last_line_end(log: Path) -> None:
    log.write_text("one\ntwo\nthree")
    assert tail(SHELL, str(log), lines=2).text == "two\nthree"


def test_tail_of_nothing_and_of_a_missing_file(log: Path) -> None:
    log.touch()
    assert tail(SHELL, str(log)).text == ""
    with pytest.raises(AdapterError, match="is not there"):
        tail(SHELL, str(log) + ".none")


def test_five_gigabytes_cost_neither_time_nor_memory(log: Path) -> None:
    with log.open("wb") as handle:
        handle.truncate(5 * 1024**3)
        handle.seek(0, os.SEEK_END)
        handle.write(b"\nlast words\n")
    tracemalloc.start()
    began_s = time.thread_time()  # our own: the machine may be busy

    last = tail(SHELL, str(log), lines=5)
    middle = slice(SHELL, str(log), start=3 * 1024**3, length=10**9)

    assert time.thread_time() - began_s < 1
    assert tracemalloc.get_traced_memory()[1] < 40 * 1024**2
    tracemalloc.stop()
    assert last.text.endswith("\nlast words\n")
    assert middle.end - middle.start == 1024**2
    assert last.size == middle.size == log.stat().st_size


def test_slices_never_cut_a_character_and_join_to_the_whole(log: Path) -> None:
    text = "µm Å 断層撮影 🧊\n" * 50
    log.write_text(text)
    pieces, start = [], 0
    while start < log.stat().st_size:
        piece = slice(SHELL, str(log), start=start, length=7)
        pieces.append(piece.text)
        assert piece.start == start < piece.end
        start = piece.end
    assert "".join(pieces) == text


def test_a_start_beyond_the_end(log: Path) -> None:
    log.write_text("abc")
    got = slice(SHELL, str(log), start=99, length=10)
    assert (got.text, got.start, got.end, got.size) == ("", 3, 3, 3)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain\ttext\r\n", "plain\ttext\n"),
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://evil\x07click\x1b]8;;\x07", "click"),
        (b"\x1b]0;title", ""),
        (b"\x1b(Bx\x1bcy\x1b", "xy"),
        (b" 10%\r 50%\r100% done\n", "100% done\n"),
        (b"half\r\n 1%\r 2%\r", "half\n 2%"),
        (b"a\x00b\x08c\x7f", "a␀b␈c␡"),
        ("safe\u202egnp.exe\u2066\u200b".encode(), "safegnp.exe"),
        (b"\xff\xfe bad", "�� bad"),
        ("\x85\x9b31m".encode(), "��31m"),
    ],
)
def test_what_is_shown_is_safe(raw: bytes, shown: str) -> None:
    assert clean(raw) == shown


def test_any_bytes_give_valid_text() -> None:
    text = clean(bytes(range(256)) * 4)
    text.encode("utf-8")
    assert not any(ord(c) < 32 and c not in "\t\n" for c in text)


def test_a_line_without_end_is_cut() -> None:
    assert clean(b"x" * 10_000).endswith("… (6000 more characters)")
