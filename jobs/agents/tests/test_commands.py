"""Programs as agents: whatever a real one does ends in one clear state, and nothing of it is more than data."""

import hashlib
import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.agents import store
from jobs.agents.models import Ask
from jobs.agents.runner import isolation
from jobs.agents.runner.command import MAX_ERRORS_BYTES
from jobs.agents.runner.isolation import NoIsolation, find_cage
from jobs.agents.runner.report import MARGIN_BYTES, MAX_RAW_BYTES, READ_BYTES
from jobs.agents.tests.factories import GOOD, Desk, run_asks, run_job
from jobs.models import Job
from jobs.services import handle_final, stop_job
from record.models import Decision, Event

SECRET = "correct-horse-battery-staple"


def raw_of(ask: Ask) -> str:
    return store.read(ask.raw_sha256).decode()


def test_a_good_answer_is_read_and_kept(desk: Desk) -> None:
    ask = desk.asked(desk.agent(f"cat > prompt; echo '{GOOD}'"))
    assert (ask.state, ask.verdict, ask.reason) == ("ok", "good", "sharp")
    assert raw_of(ask) == GOOD + "\n" and ask.raw_bytes == len(GOOD) + 1 and not ask.raw_cut
    assert len(ask.digest) == 64 and ask.ended_at
    assert Event.objects.filter(subject_uuid=ask.uuid, kind="ask.answer").count() == 1
    assert not Decision.objects.exists(), "an answer is data, not a decision"


def test_the_prompt_reaches_it_as_it_is_kept(desk: Desk) -> None:
    program = """python3 -c 'import json,sys,hashlib
text = sys.stdin.read()
print(json.dumps({"status": "ok", "verdict": "good", "reason": hashlib.sha256(text.encode()).hexdigest()}))'"""
    ask = desk.asked(desk.agent(program), data={"figures": "résiduel: 1.2 Å\n$(touch pwned) `id` \\ ORDER"})
    assert ask.reason == hashlib.sha256(ask.prompt.encode()).hexdigest()
    assert not list(desk.folder.rglob("pwned"))


@pytest.mark.parametrize(
    ("program", "state", "told"),
    [
        ("echo '<script>alert(1)</script> looks good'", "no_status", "no JSON"),
        ("true", "no_status", "empty"),
        ("echo '{\"status\": \"ok\"'", "no_status", "no JSON"),
        ("echo '[1, 2]'", "no_status", "no object"),
        ("echo '{\"verdict\": \"good\", \"verdict\": \"bad\"}'", "no_status", "twice"),
        ("echo '{\"status\": \"ok\", \"verdict\": \"approve\", \"reason\": \"x\"}'", "failed", "verdict"),
        ("echo '{\"status\": \"ok\", \"verdict\": \"good\", \"reason\": \"x\", \"keep\": true}'", "failed", "keep"),
        ("echo '{\"status\": \"blocked\", \"reason\": \"I see no picture\"}'", "blocked", "I see no picture"),
        ("echo '{\"status\": \"blocked\", \"verdict\": \"good\"}'", "failed", "doesn't hold"),
        ("echo 'model overloaded' >&2; exit 3", "failed", "model overloaded"),
        ("exit 75", "rate_limited", "exit code 75"),
        ("echo 'Error: Rate Limit reached' >&2; exit 1", "rate_limited", "Rate Limit"),
        ("kill -9 $$", "failed", "exit code"),
    ],
)  # fmt: skip
def test_each_way_to_fail_has_its_outcome(desk: Desk, program: str, state: str, told: str) -> None:
    signs = {"exit_codes": {"75": "rate_limited"}, "stderr_says": {"rate_limited": ["rate limit"]}}
    ask = desk.asked(desk.agent(program, configuration=signs))
    assert ask.state == state, ask.why
    assert told in ask.why
    assert ask.result is None and ask.verdict == ""


def test_a_program_that_is_not_there_was_never_reached(desk: Desk) -> None:
    agent = desk.agent("", configuration={"command": ["/nowhere/claire"]}, isolation="none")
    ask = desk.asked(agent)
    assert ask.state == "infra" and "/nowhere/claire can't be started" in ask.why


@pytest.mark.usefixtures("bubblewrap")
def test_a_program_that_is_not_there_in_isolation_was_never_reached(desk: Desk) -> None:
    ask = desk.asked(desk.agent("", configuration={"command": ["/nowhere/claire"]}, isolation="required"))
    assert ask.state == "infra" and "isolation" in ask.why


def test_five_megabytes_are_kept_and_the_rest_is_not(desk: Desk) -> None:
    ask = desk.asked(desk.agent("head -c 20000000 /dev/zero | tr '\\0' x; sleep 60"))
    assert ask.state == "failed" and "more than 5 MiB" in ask.why
    assert ask.raw_cut and ask.raw_bytes == 5 * 1024 * 1024


def test_an_answer_of_five_megabytes_is_not_taken_for_one(desk: Desk) -> None:
    program = """python3 -c 'print("{\\"status\\": \\"ok\\", \\"reason\\": \\"" + "x" * 4900000 + "\\"}")'"""
    ask = desk.asked(desk.agent(program))
    assert ask.state == "no_status" and "is the most that is read" in ask.why
    assert not ask.raw_cut and ask.raw_bytes > 4_900_000


def test_deep_nesting_is_unreadable(desk: Desk) -> None:
    ask = desk.asked(desk.agent("head -c 100000 /dev/zero | tr '\\0' '['"))
    assert ask.state == "no_status"


def test_one_that_hangs_is_ended_with_all_that_it_started(desk: Desk) -> None:
    agent = desk.agent(f"echo '{GOOD}'; (setsid sleep 7777 &); exec sleep 7777", time_limit_s=1)
    begun = time.monotonic()
    ask = desk.asked(agent)
    assert ask.state == "timed_out" and "within 1 s" in ask.why
    assert time.monotonic() - begun < 60
    assert ask.result is None, "what it said before its time was up is no answer"
    assert raw_of(ask) == GOOD + "\n"


def test_one_that_leaves_a_child_with_its_output_open_does_not_keep_us(desk: Desk) -> None:
    ask = desk.asked(desk.agent(f"echo '{GOOD}'; sleep 7777 &"))
    assert ask.state == "ok"


@pytest.mark.parametrize(
    "spelling", ["$KEY", '$(printf %s "$KEY" | base64)', "$(printf %s \"$KEY\" | od -An -tx1 | tr -d ' \\n')"]
)
def test_a_secret_that_it_was_given_never_comes_back(desk: Desk, monkeypatch: Any, spelling: str) -> None:
    monkeypatch.setenv("KEY", SECRET)
    told = r'"{\"status\": \"ok\", \"verdict\": \"good\", \"reason\": \"$text\"}"'
    program = f'text="{spelling}"; echo {told}; echo "$text" >&2'
    ask = desk.asked(desk.agent(program, configuration={"environment": ["KEY"]}))
    assert ask.state == "ok" and ask.reason.startswith("[redacted]")
    everything = [p.read_bytes() for p in desk.folder.rglob("*") if p.is_file()] + [json.dumps(ask.facts()).encode()]
    assert not [each for each in everything if SECRET.encode() in each], "nor does it lie in a file"


def test_a_secret_on_its_errors_is_struck_from_the_message(desk: Desk) -> None:
    secret = desk.folder / "key"
    secret.write_text(SECRET + "\n")
    agent = desk.agent("echo bad key $KEY >&2; exit 1", configuration={"secret_files": {"KEY": str(secret)}})
    ask = desk.asked(agent)
    assert ask.state == "failed" and "bad key [redacted]" in ask.why
    secret.unlink()
    ask = desk.asked(agent)
    assert ask.state == "infra" and str(secret) in ask.why


@pytest.mark.parametrize("least_bytes", [MAX_RAW_BYTES - 9, READ_BYTES - 9])
def test_a_secret_across_the_end_of_what_is_kept_or_read_leaves_no_head(
    desk: Desk, monkeypatch: Any, least_bytes: int
) -> None:
    monkeypatch.setenv("KEY", SECRET)
    program = f"head -c {least_bytes} /dev/zero | tr '\\0' .; printf '%s' \"$KEY\"; head -c 200000 /dev/zero"
    ask = desk.asked(desk.agent(program, configuration={"environment": ["KEY"]}))
    assert ask.raw_cut and SECRET[:4] not in raw_of(ask)


def test_a_secret_across_the_end_of_its_errors_leaves_no_head(desk: Desk, monkeypatch: Any) -> None:
    monkeypatch.setenv("KEY", SECRET)
    for before, after in ((MAX_ERRORS_BYTES - 9, 9_000), (10, 580), (MAX_ERRORS_BYTES + MARGIN_BYTES - 9, 9_000)):
        told = f"head -c {before} /dev/zero | tr '\\0' '\\n'; printf %s \"$KEY\"; printf ' %{after}s' ."
        agent = desk.agent(f"({told}) >&2; exit 1", name=f"a{before}", configuration={"environment": ["KEY"]})
        ask = desk.asked(agent)
        assert ask.state == "failed" and not re.search("corr|batt|stap", ask.why), ask.why


def test_what_has_the_form_of_a_secret_is_struck_too(desk: Desk) -> None:
    ask = desk.asked(desk.agent('printf "the key is sk-%s\\n" abcdefghijklmnopqrstuvwx'))
    assert raw_of(ask) == "the key is [redacted]\n"


def test_it_sees_nothing_of_ours_that_it_was_not_given(desk: Desk, monkeypatch: Any) -> None:
    monkeypatch.setenv("CONDUCTOR_SECRET_KEY", SECRET)
    monkeypatch.setenv("OTHER", SECRET)
    ask = desk.asked(desk.agent("env | sort"))
    names = {line.partition("=")[0] for line in raw_of(ask).splitlines()}
    assert {"PATH", "HOME"} <= names
    assert not names & {"CONDUCTOR_SECRET_KEY", "OTHER", "PYTHONPATH", "DJANGO_SETTINGS_MODULE", "CONDUCTOR_AGENT_OUT"}


def test_controls_and_turned_writing_are_taken_out(desk: Desk) -> None:
    program = r"""printf '{"status":"ok","verdict":"good","reason":"a\\u001b[31mred\\u202eevil\\u0000"}'"""
    ask = desk.asked(desk.agent(program))
    assert ask.state == "ok"
    assert not set(ask.reason) & {"\x1b", "\u202e", "\x00"}


def test_front_matter_is_read_and_what_is_below_is_not(desk: Desk) -> None:
    agent = desk.agent(
        "printf -- '---\\nstatus: ok\\nverdict: bad\\nreason: streaks\\n---\\n# verdict: good\\n'",
        configuration={"front_matter": True},
    )
    ask = desk.asked(agent)
    assert (ask.state, ask.verdict) == ("ok", "bad")
    assert "front matter" in ask.prompt


def test_an_envelope_tells_text_cost_and_tokens(desk: Desk) -> None:
    told = json.dumps({"result": GOOD, "total_cost_usd": 0.0123, "usage": {"in": 1200, "out": 34}, "model": "m-1"})
    paths = {
        "text": "result",
        "cost_usd": "total_cost_usd",
        "tokens_in": "usage.in",
        "tokens_out": "usage.out",
        "model": "model",
    }
    ask = desk.asked(desk.agent(f"cat <<'E'\n{told}\nE", configuration={"envelope": paths}))
    assert (ask.state, ask.tokens_in, ask.tokens_out, float(ask.cost_usd or 0), ask.model_name) == (
        "ok", 1200, 34, 0.0123, "m-1",
    )  # fmt: skip
    bad = desk.asked(desk.agent("echo '{}'", name="other", configuration={"envelope": paths}))
    assert bad.state == "no_status" and "no text" in bad.why


@pytest.mark.usefixtures("bubblewrap")
def test_in_bubblewrap_it_can_touch_nothing_of_ours(desk: Desk) -> None:
    target = desk.folder / "precious"
    target.write_text("x")
    program = (
        f"rm -rf {desk.folder} /work 2>/dev/null; ls {desk.folder} / >&2; touch /usr/x 2>/dev/null && echo writable"
    )
    ask = desk.asked(desk.agent(f"{program}; echo '{GOOD}'", isolation="required"))
    assert ask.state == "ok" and ask.isolation == "bubblewrap" and ask.is_isolated
    assert target.read_text() == "x"


@pytest.mark.usefixtures("bubblewrap")
def test_in_bubblewrap_it_reads_no_settings_that_others_may_not(
    tmp_path: Path, beside_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site's secrets lie below /etc, for Conductor's user to read: as whom the program runs."""
    site = beside_tmp / "opt"
    (site / "conductor").mkdir(parents=True)
    for name, mode in {"open": 0o644, "conductor/conductor.env": 0o640, "key": 0o600}.items():
        (site / name).write_text(SECRET)
        (site / name).chmod(mode)
    closed = site / "closed"
    closed.mkdir()
    (closed / "token").write_text(SECRET)
    closed.chmod(0o750)
    monkeypatch.setattr(isolation, "SYSTEM", (*isolation.SYSTEM, str(site)))
    monkeypatch.setattr(isolation, "SETTINGS", (str(site),))
    cage = find_cage("required", user="", readable=[], network=False)
    program = f"cd {site}; for each in open conductor/conductor.env key closed/token; do echo $each; cat $each; done"
    (tmp_path / "desk").mkdir()
    argv = cage.command(["/bin/sh", "-c", program], str(tmp_path / "desk"))
    seen = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert seen.stdout == f"open\n{SECRET}conductor/conductor.env\nkey\nclosed/token\n", seen.stderr


@pytest.mark.usefixtures("bubblewrap")
def test_without_network_nothing_is_reached(desk: Desk) -> None:
    program = "python3 -c 'import socket; print(len(socket.if_nameindex()))'"
    closed = desk.asked(desk.agent(program, configuration={"network": False}, isolation="required"))
    assert raw_of(closed) == "1\n", "the loopback of its own alone"


@pytest.fixture
def beside_tmp() -> Iterator[Path]:
    """A folder that is not below /tmp, of which a program in bubblewrap has one of its own."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def bubblewrap() -> None:
    """Bubblewrap, where it can be had: it may be missing (told where CI=true), or the kernel may not let it work."""
    if not shutil.which("bwrap") and os.environ.get("CI") == "true":
        pytest.fail("bubblewrap is missing: install Debian's package bubblewrap")
    try:
        find_cage("required", user="", readable=[], network=True)
    except NoIsolation:
        pytest.skip("bubblewrap is missing, or this kernel does not let it make name spaces")


@pytest.fixture
def no_bubblewrap(monkeypatch: Any) -> Iterator[None]:
    """A path on which there are only the programs that the tests' agents need, and where everybody can read."""
    tools = Path(tempfile.mkdtemp())
    tools.chmod(0o755)
    for name in ("bash", "cat", "id", "sleep", "python3", "env", "sort"):
        (tools / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(tools))
    yield
    shutil.rmtree(tools)


@pytest.mark.usefixtures("no_bubblewrap")
def test_without_isolation_it_is_asked_and_marked(desk: Desk) -> None:
    ask = desk.asked(desk.agent(f"echo '{GOOD}'"))
    assert ask.state == "ok" and ask.isolation == "unisolated" and not ask.is_isolated


@pytest.mark.usefixtures("no_bubblewrap")
def test_where_isolation_is_required_it_is_not_asked_without(desk: Desk) -> None:
    marker = desk.folder / "ran"
    ask = desk.asked(desk.agent(f"touch {marker}", isolation="required"))
    assert ask.state == "infra" and "bubblewrap" in ask.why
    assert not marker.exists()


@pytest.mark.usefixtures("no_bubblewrap")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run it as somebody else")
def test_as_another_user_it_is_not_us(desk: Desk, settings: Any) -> None:
    settings.AGENT_USER = "nobody"
    program = """echo '{"status": "ok", "verdict": "good", "reason": "'$(id -u)'"}' > answer; cat answer"""
    ask = desk.asked(desk.agent(program))
    assert ask.state == "ok" and ask.isolation == "other_user"
    assert ask.reason == str(pwd.getpwnam("nobody").pw_uid)


def test_as_many_at_once_as_it_takes(desk: Desk) -> None:
    agent = desk.agent(f"echo '{GOOD}'", at_once=2)
    desk.ask(agent, *[f"TS_{n:03}" for n in range(1, 6)])
    assert list(Ask.objects.order_by("id").values_list("state", flat=True)) == ["asked"] * 2 + ["waiting"] * 3
    assert run_asks() == 5
    assert set(Ask.objects.values_list("state", flat=True)) == {"ok"}


def test_taking_an_answer_twice_changes_nothing(desk: Desk) -> None:
    ask = desk.asked(desk.agent(f"echo '{GOOD}'"))
    before = Ask.objects.values().get()
    Job.objects.update(final_handled=False)
    assert handle_final(Job.objects.get())
    assert Ask.objects.values().get() == before
    assert Event.objects.filter(subject_uuid=ask.uuid, kind="ask.answer").count() == 1


def test_a_job_that_was_cancelled_took_the_question_back(desk: Desk) -> None:
    (ask,) = desk.ask(desk.agent("sleep 7777"))
    assert ask.job is not None
    stop_job(job=ask.job, author=desk.author, reason="not needed")
    assert handle_final(ask.job)
    ask.refresh_from_db()
    assert ask.state == "withdrawn" and "not needed" in ask.why


def test_what_a_cancelled_job_could_still_report_is_no_answer(desk: Desk) -> None:
    (ask,) = desk.ask(desk.agent(f"echo '{GOOD}'"))
    run_job(Job.objects.get())
    Job.objects.update(state="cancelled", reason="Cancelled by reviewer")
    assert handle_final(Job.objects.get())
    ask.refresh_from_db()
    assert ask.state == "withdrawn" and ask.result is None and "Cancelled by reviewer" in ask.why
    assert raw_of(ask) == GOOD + "\n", "what it wrote is kept all the same"


def test_a_runner_that_can_not_run_is_told(desk: Desk) -> None:
    (ask,) = desk.ask(desk.agent("true"))
    job = Job.objects.get()
    job.script = "#!/bin/bash\necho 'python3: not found' >&2\nexit 127\n"
    run_job(job)
    handle_final(job)
    ask.refresh_from_db()
    assert ask.state == "infra" and "python3: not found" in ask.why


def test_pictures_go_along_and_must_be_what_was_shown(desk: Desk) -> None:
    picture = desk.folder / "p.png"
    picture.write_bytes(b"picture")
    facts = {
        "name": "p.png",
        "path": str(picture),
        "media_type": "image/png",
        "sha256": hashlib.sha256(b"picture").hexdigest(),
    }
    agent = desk.agent("""echo '{"status": "ok", "verdict": "good", "reason": "'$(cat p.png)'"}'""")
    assert desk.asked(agent, pictures=[facts]).reason == "picture"
    picture.write_bytes(b"another")
    again = desk.asked(agent, pictures=[facts])
    assert again.state == "infra" and "not what was shown" in again.why
