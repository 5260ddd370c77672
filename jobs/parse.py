"""What a batch script asks for, from its #SBATCH lines."""

import re
import shlex
from dataclasses import dataclass

from jobs.printed import whole

MEMORY_MIB = {"": 1, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
SHORT_OPTIONS = {
    "a": "array",
    "t": "time",
    "c": "cpus-per-task",
    "o": "output",
    "e": "error",
    "J": "job-name",
    "p": "partition",
    "D": "chdir",
}
UNLIMITED = {"infinite", "unlimited", "-1"}


@dataclass(frozen=True)
class ScriptResources:
    """What a script asks for; None or "" where it asks for nothing. Paths are patterns with %j, %x and the like."""

    time_limit_s: int | None = None
    memory_mib: int | None = None
    cpus: int | None = None
    output: str = ""
    error: str = ""
    job_name: str = ""


def script_resources(text: str) -> ScriptResources:
    """Reads the #SBATCH lines before the first command, as sbatch does.

    Times in seconds, memory in MiB. Options that mean nothing here (partition, gres) are passed over, and so are values
    that can't be read: the scheduler itself is the one to refuse them.
    """
    options = sbatch_options(text)
    cpus = _whole(options.get("cpus-per-task"))
    return ScriptResources(
        time_limit_s=parse_time_s(options.get("time", "")),
        memory_mib=_memory_mib(options, cpus or 1),
        cpus=cpus,
        output=options.get("output", ""),
        error=options.get("error", ""),
        job_name=options.get("job-name", ""),
    )


def sbatch_options(text: str) -> dict[str, str]:
    """Long option name -> value, from the #SBATCH lines before the first command; a later mention wins."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#SBATCH"):
            options |= _options_of_line(line[len("#SBATCH") :])
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return options


def parse_time_s(text: str) -> int | None:
    """Seconds of a SLURM time: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].

    None for no, an unlimited or an unreadable time.
    """
    text = text.strip()
    if not text or text.lower() in UNLIMITED or not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text):
        return None
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if days:
        hours, minutes, seconds = (parts + [0, 0])[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, *(parts + [0])[:2]
    return int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds


def parse_memory_mib(text: str) -> int | None:
    """MiB of a SLURM memory size (`16G`, `500M`, `4000` is MiB), at least 1; None for none, `0` (all) or unreadable."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", text.strip(), re.IGNORECASE)
    if not match or not float(match[1]):
        return None
    return max(1, round(float(match[1]) * MEMORY_MIB[match[2].upper()]))


def fill_signs(pattern: str, *, job_id: str, job_name: str) -> str:
    """A log file's name from a pattern, as SLURM fills it for a job that is no array."""
    known = {"j": job_id, "J": job_id, "A": job_id, "x": job_name, "%": "%", "a": "0", "t": "0", "n": "0", "s": "0"}
    return re.sub(r"%\d*([a-zA-Z%])", lambda found: known.get(found[1], ""), pattern)


def fill_pattern(pattern: str, *, token: str, job_name: str) -> str:
    """A log file's name from a pattern: %j, %J, %A are the token, %x the job's name, %a, %t, %n 0, %% a percent sign.

    Where the pattern names no job, the token is put before the ending, so that an attempt's log stays its own.
    """
    filled = fill_signs(pattern, job_id=token, job_name=job_name)
    if token in filled:
        return filled
    stem, dot, ending = filled.rpartition(".")
    return f"{stem}.{token}.{ending}" if dot and "/" not in ending and stem else f"{filled}.{token}"


def shebang(text: str) -> list[str]:
    """The interpreter and its one argument from the first line, as the kernel reads it; bash where there is none."""
    first = text.split("\n", 1)[0]
    words = first[2:].strip().split(None, 1) if first.startswith("#!") else []
    return [word.strip() for word in words] or ["/bin/bash"]


def _options_of_line(line: str) -> dict[str, str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return {}
    options: dict[str, str] = {}
    position = 0
    while position < len(words):
        name, value, used = _option(words[position], words[position + 1 : position + 2])
        if name:
            options[name] = value
        position += used
    return options


def _option(word: str, following: list[str]) -> tuple[str, str, int]:
    """(long name, value, words used) of one option; "" for what is no option."""
    after = following[0] if following and not following[0].startswith("--") else ""
    if word.startswith("--"):
        name, equals, value = word[2:].partition("=")
        return (name, value, 1) if equals else (name, after, 2 if after else 1)
    if word.startswith("-") and len(word) > 1:
        name = SHORT_OPTIONS.get(word[1], word[1])
        return (name, word[2:].removeprefix("="), 1) if len(word) > 2 else (name, after, 2 if after else 1)
    return "", "", 1


def _whole(text: str | None) -> int | None:
    return whole(text or "") or None


def _memory_mib(options: dict[str, str], cpus: int) -> int | None:
    if (whole := parse_memory_mib(options.get("mem", ""))) is not None:
        return whole
    per_cpu = parse_memory_mib(options.get("mem-per-cpu", ""))
    return None if per_cpu is None else per_cpu * cpus
