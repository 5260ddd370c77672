"""Agents and asks as pages: tried, switched, set up; and what they wrote, only ever as text."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs.agents import store
from jobs.agents.models import Agent, Ask
from jobs.agents.tests.factories import GOOD, Desk, run_asks
from record.models import Event


@pytest.fixture
def administrator(desk: Desk, client: Client) -> Client:
    client.force_login(desk.people.administrator)
    return client


def text_of(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_an_administrator_tries_one_and_reads_what_came(desk: Desk, administrator: Client) -> None:
    agent = desk.agent("""echo '{"status": "ok", "answer": "I am <b>bold</b>."}'""")
    answer = administrator.post(f"/agents/{agent.pk}/try/", {"question": "What are you? </pre><script>x</script>"})
    ask = Ask.objects.get()
    assert answer.status_code == 302 and answer.headers["Location"] == f"/asks/{ask.uuid}/"
    assert "being asked" in text_of(administrator, f"/asks/{ask.uuid}/")
    run_asks()
    shown = text_of(administrator, f"/asks/{ask.uuid}/")
    assert "I am &lt;b&gt;bold&lt;/b&gt;." in shown and "&lt;script&gt;x" in shown
    assert "<script>x" not in shown and "<b>bold" not in shown
    assert "I am &lt;b&gt;" in text_of(administrator, f"/agents/{agent.pk}/")
    assert agent.name in text_of(administrator, "/agents/")


def test_a_refusal_keeps_the_question(desk: Desk, administrator: Client) -> None:
    agent = desk.agent("true")
    Agent.objects.update(configuration={"command": 3})
    answer = administrator.post(f"/agents/{agent.pk}/try/", {"question": "What are you?"})
    assert answer.status_code == 400
    shown = answer.content.decode()
    assert "What are you?" in shown and "is not of type" in shown
    assert administrator.post(f"/agents/{agent.pk}/try/", {"question": " "}).status_code == 400
    assert not Ask.objects.exists()


def test_switched_off_nothing_more_is_put_to_it(desk: Desk, administrator: Client) -> None:
    agent = desk.agent(f"echo '{GOOD}'", at_once=1)
    desk.ask(agent, "TS_001", "TS_002")
    administrator.post(f"/agents/{agent.pk}/switch/", {"on": "0", "reason": "too dear"})
    agent.refresh_from_db()
    assert agent.off_since and Event.objects.get(kind="agent.switch").message.endswith("too dear")
    assert dict(Ask.objects.values_list("item", "state")) == {"TS_001": "asked", "TS_002": "withdrawn"}
    assert "switched off" in text_of(administrator, f"/agents/{agent.pk}/")
    refused = administrator.post(f"/agents/{agent.pk}/try/", {"question": "x"})
    assert refused.status_code == 409 and "switched off" in refused.content.decode()
    administrator.post(f"/agents/{agent.pk}/switch/", {"on": "1"})
    assert Agent.objects.get().off_since is None
    administrator.post(f"/agents/{agent.pk}/switch/", {"on": "1"})
    assert Event.objects.filter(kind="agent.switch").count() == 2, "twice is once"


def test_what_it_wrote_is_served_as_a_text_to_keep(desk: Desk, administrator: Client) -> None:
    ask = desk.asked(desk.agent("echo '<html><script>alert(1)</script>'"))
    answer = administrator.get(f"/asks/{ask.uuid}/raw/")
    assert answer.content == b"<html><script>alert(1)</script>\n"
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert (
        answer.headers["X-Content-Type-Options"] == "nosniff" and "sandbox" in answer.headers["Content-Security-Policy"]
    )
    again = administrator.get(f"/api/v1/asks/{ask.uuid}/raw/")
    assert again.content == answer.content and again.headers["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize("harm", ["gone", "altered"])
def test_an_output_that_was_lost_is_told(desk: Desk, administrator: Client, harm: str) -> None:
    ask = desk.asked(desk.agent("echo x"))
    path = store.path_of(ask.raw_sha256)
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(b"another")
    assert ("missing" if harm == "gone" else "altered") in text_of(administrator, f"/asks/{ask.uuid}/")
    assert administrator.get(f"/asks/{ask.uuid}/raw/").status_code == 410


def test_five_megabytes_do_not_make_a_page_of_five_megabytes(desk: Desk, administrator: Client) -> None:
    ask = desk.asked(desk.agent("head -c 20000000 /dev/zero | tr '\\0' '<'"))
    assert len(text_of(administrator, f"/asks/{ask.uuid}/")) < 1_500_000


def test_it_is_set_up_in_the_admin(desk: Desk, client: Client) -> None:
    client.force_login(User.objects.create_superuser("keeper", password="x"))
    form: dict[str, Any] = {
        "lab": desk.lab.pk, "name": "claire", "role": "looks", "backend": "command", "family": "shell",
        "configuration": '{"command": ["x"], "environment": ["CONDUCTOR_SECRET_KEY"]}', "target": "",
        "isolation": "best", "time_limit_s": 60, "memory_mib": 512, "at_once": 2,
    }  # fmt: skip
    refused = client.post("/admin/jobs/agent/add/", form)
    assert "Conductor&#x27;s own variable" in refused.content.decode() and not Agent.objects.exists()
    assert client.post("/admin/jobs/agent/add/", form | {"configuration": '{"command": ["x"]}'}).status_code == 302
    assert Agent.objects.get().configuration == {"command": ["x"]}


def test_lists_ask_as_much_however_long_they_are(
    desk: Desk, administrator: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        agent = desk.agent(f"echo '{GOOD}'", name=f"agent-{number}", at_once=20)
        desk.ask(agent, "TS_001", "TS_002")
    for path in ("/agents/", f"/agents/{agent.pk}/", "/api/v1/agents/", "/api/v1/asks/"):
        with django_assert_max_num_queries(14):
            text_of(administrator, path)
