"""What is wrong with a target is said in words."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from jobs.check import Finding, check_target, file_system
from jobs.models import Target


def bad(target: Target) -> str:
    return "\n".join(finding.message for finding in check_target(target) if not finding.ok)


def test_a_good_target(target: Target) -> None:
    findings = check_target(target)
    assert all(finding.ok for finding in findings), findings
    assert Finding(True, f"It belongs to this host, {target.host}.") in findings
    assert list(Path(target.roots[0]).iterdir()) == [Path(target.job_folder)]
    assert list(Path(target.job_folder).iterdir()) == []


def test_another_host(target: Target) -> None:
    target.host = "elsewhere"
    (finding,) = check_target(target)
    assert not finding.ok and "It belongs to the host elsewhere" in finding.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"roots": []}, "It has no roots"),
        ({"roots": ["/no/such/folder"]}, "The root /no/such/folder is not there"),
        ({"roots": ["relative"]}, "is not an absolute path"),
        ({"roots": ["/proc"]}, "The root can't be used"),
        ({"job_folder": "/proc/jobs"}, "The job folder can't be used"),
        ({"slots": 0}, "It has no slots"),
        ({"paused": True}, "It is paused"),
        ({"max_memory_mib": 10**9}, "this machine has"),
        ({"default_time_limit_s": 10, "max_time_limit_s": 5}, "above the longest"),
        ({"environment_lines": "module load warp"}, "module: command not found"),
        ({"environment_lines": "exit 4"}, "end the shell before the script could begin: exit code 4"),
        ({"environment_lines": "source /no/conda.sh || exit 1"}, "/no/conda.sh"),
    ],
)
def test_what_is_wrong(target: Target, changes: dict[str, object], words: str) -> None:
    for name, value in changes.items():
        setattr(target, name, value)
    assert words in bad(target)


def test_file_systems_are_told_apart(tmp_path: Path) -> None:
    assert file_system("/proc/self") == "proc"
    assert file_system(str(tmp_path)) not in ("", "proc")


def test_the_command_lists_findings_and_fails_on_bad_ones(target: Target) -> None:
    out = StringIO()
    call_command("check_target", "here", stdout=out)
    assert out.getvalue().startswith("ok   It belongs to this host")
    Target.objects.update(paused=True)
    with pytest.raises(CommandError, match="1 of"):
        call_command("check_target", "here", stdout=out)
    assert "BAD  It is paused" in out.getvalue()
    with pytest.raises(CommandError, match="There is no target nowhere. There are: here."):
        call_command("check_target", "nowhere")
