"""#SBATCH lines, log patterns and shebangs."""

import pytest

from jobs.parse import (
    ScriptResources,
    fill_pattern,
    parse_memory_mib,
    parse_time_s,
    sbatch_options,
    script_resources,
    shebang,
)

# The head of a script as labs write them.
SCRIPT = """#!/bin/bash -l
#SBATCH --job-name=warp_ctf
#SBATCH --partition gpu
#SBATCH -t 1-12:30:00          # a day and a half
#SBATCH --mem=256G --cpus-per-task=8
#SBATCH --output="logs/%x_%j.out"
#SBATCH -e logs/%x_%j.err

set -euo pipefail
#SBATCH --time=00:01
"""


def test_reads_what_a_script_asks_for() -> None:
    assert script_resources(SCRIPT) == ScriptResources(
        time_limit_s=131_400,
        memory_mib=262_144,
        cpus=8,
        output="logs/%x_%j.out",
        error="logs/%x_%j.err",
        job_name="warp_ctf",
    )


def test_a_script_that_asks_for_nothing() -> None:
    assert script_resources("#!/bin/bash\necho\n") == ScriptResources()
    assert script_resources("") == ScriptResources()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800), ("30:15", 1815), ("2:00:00", 7200), ("1-0", 86_400), ("1-2:30", 95_400), ("0-0:0:5", 5),
        ("UNLIMITED", None), ("", None), ("soon", None), ("1:2:3:4", None), ("-5", None),
    ],
)  # fmt: skip
def test_times(text: str, seconds: int | None) -> None:
    assert parse_time_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "mib"),
    [("4000", 4000), ("16G", 16_384), ("512M", 512), ("1T", 1_048_576), ("2048K", 2), ("100K", 1), ("1.5g", 1536),
     ("0", None), ("", None), ("lots", None)],
)  # fmt: skip
def test_memory(text: str, mib: int | None) -> None:
    assert parse_memory_mib(text) == mib


def test_memory_per_processor() -> None:
    assert script_resources("#SBATCH -c 4\n#SBATCH --mem-per-cpu=2G\n").memory_mib == 8192


def test_options_that_stand_alone_do_not_swallow_the_next() -> None:
    options = sbatch_options("#SBATCH --exclusive --time=10\n#SBATCH --mem 5G\n#SBATCH --output='unclosed\n")
    assert options == {"exclusive": "", "time": "10", "mem": "5G"}


@pytest.mark.parametrize(
    ("pattern", "filled"),
    [
        ("logs/%x_%j.out", "logs/align_T.out"),
        ("out/%A_%a.log", "out/T_0.log"),
        ("%5j.out", "T.out"),
        ("logs/fixed.out", "logs/fixed.T.out"),
        ("logs.d/fixed", "logs.d/fixed.T"),
        ("100%%_%j", "100%_T"),
    ],
)
def test_log_patterns_always_name_the_job(pattern: str, filled: str) -> None:
    assert fill_pattern(pattern, token="T", job_name="align") == filled


def test_shebangs() -> None:
    assert shebang("#!/bin/bash\n") == ["/bin/bash"]
    assert shebang("#! /usr/bin/env  -S bash -l\nx") == ["/usr/bin/env", "-S bash -l"]
    assert shebang("echo\n") == ["/bin/bash"]
    assert shebang("#!\n") == ["/bin/bash"]
