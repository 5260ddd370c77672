"""Text and times that come from a target's commands, and commands that don't end or don't stop printing."""

import math
import os
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime

import pytest

from jobs.calls import TooMuch, call
from jobs.printed import EARLIEST, LATEST, moment, printed, whole
from jobs.processes import split_identity

MANY = 3_000_000


@pytest.mark.parametrize("text", ["\u00b2", "\u0663", "9" * 5000, "-1", "+1", " 1", "1_0", ""])
def test_a_number_that_is_none(text: str) -> None:
    """Python calls some of these digits and then can't read them; a job may have written them into its own folder."""
    assert whole(text) is None
    assert split_identity(f"boot:{text}:1") == split_identity(f"boot:1:{text}") == ("", 0, 0)
    assert (whole("0"), whole("0042"), split_identity("boot:12:34")) == (0, 42, ("boot", 12, 34))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\r\nlines\tstay\n", "plain\nlines\tstay\n"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        (b"nul\x00bell\x07\x0c\x1e", "nul\u2400bell\u2407\u240c\u241e"),
        ("a\u2028b\u202ec\x85d\u200b".encode(), "abc\ufffdd"),
        (b"no utf-8 \xff", "no utf-8 \ufffd"),
    ],
)
def test_text_that_can_be_shown(data: bytes, text: str) -> None:
    assert printed(data) == text
    assert len(printed(data).splitlines()) == len(printed(data).rstrip("\n").split("\n"))


@pytest.mark.parametrize("seconds", [math.nan, -math.inf, -1e30])
def test_times_before_all_calendars(seconds: float) -> None:
    assert moment(seconds) == EARLIEST


@pytest.mark.parametrize("seconds", [math.inf, 1e15, 1e300])
def test_times_beyond_all_calendars(seconds: float) -> None:
    assert moment(seconds) == LATEST


def test_usual_times() -> None:
    assert moment(1_796_000_000) == datetime.fromtimestamp(1_796_000_000, UTC)


def test_what_is_fed_comes_back() -> None:
    data = os.urandom(MANY)
    done = call(["cat"], fed=data, timeout_s=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


def test_output_and_complaints_are_kept_apart() -> None:
    body = f"import sys; sys.stdout.write('o' * {MANY}); sys.stderr.write('e' * {MANY}); sys.exit(3)"
    done = call([sys.executable, "-c", body], timeout_s=60)
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (3, MANY, MANY)


def test_nobody_reads_what_is_fed() -> None:
    assert call(["true"], fed=b"x" * MANY, timeout_s=60).returncode == 0


def test_a_command_that_does_not_end() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        call(["sleep", "600"], timeout_s=0.2)
    with pytest.raises(subprocess.TimeoutExpired):  # it has closed both, and goes on
        call(["sh", "-c", "exec >&- 2>&-; exec sleep 600"], timeout_s=0.5)


def test_a_command_that_prints_without_end() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TooMuch, match="more than 4 MiB"):
            call(["yes"], timeout_s=60, most_bytes=4 * 1024**2)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024**2
    finally:
        tracemalloc.stop()


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        call(["/nowhere/at/all"], timeout_s=60)
