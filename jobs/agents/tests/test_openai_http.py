"""Models behind an OpenAI-compatible service: the real client, in a real process, against a double on this machine."""

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.agents import store
from jobs.agents.models import Agent
from jobs.agents.tests.factories import GOOD, Desk
from jobs.agents.tests.provider import Provider, serving

KEY = "quite-a-long-key-0123456789"


@pytest.fixture
def provider(monkeypatch: Any) -> Iterator[Provider]:
    monkeypatch.setenv("LOOKER_KEY", KEY)
    with serving() as made:
        yield made


def looker(desk: Desk, provider: Provider, **configuration: Any) -> Agent:
    wanted = {"base_url": provider.url, "model": "looker", "key_variable": "LOOKER_KEY"} | configuration
    return Agent.objects.create(
        lab=desk.lab, name="looker", role="looks", backend="openai_http", family="looker", time_limit_s=20,
        configuration={name: value for name, value in wanted.items() if value is not None},
    )  # fmt: skip


def test_it_is_asked_once_without_a_stream_and_its_cost_is_known(desk: Desk, provider: Provider) -> None:
    provider.says = GOOD
    ask = desk.asked(
        looker(desk, provider, usd_per_million_in=3, usd_per_million_out=15, parameters={"temperature": 0})
    )
    assert (ask.state, ask.verdict, ask.model_name) == ("ok", "good", "looker-2"), ask.why
    assert (ask.tokens_in, ask.tokens_out, float(ask.cost_usd or 0)) == (1000, 200, 0.006)
    assert ask.isolation == "elsewhere" and ask.is_isolated
    (asked,) = provider.asked
    assert asked["path"] == "/v1/chat/completions" and asked["stream"] is False and asked["temperature"] == 0
    assert asked["messages"] == [{"role": "user", "content": ask.prompt}]
    assert provider.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("tokens", ["9" * 4000, "1e308", "-5", "true", '"7"', "NaN"])
def test_tokens_that_can_not_be_counted_cost_no_answer(desk: Desk, provider: Provider, tokens: str) -> None:
    message = json.dumps({"content": GOOD})
    usage = f'{{"prompt_tokens": {tokens}, "completion_tokens": 1}}'
    provider.body = f'{{"choices": [{{"message": {message}}}], "usage": {usage}}}'.encode()
    ask = desk.asked(looker(desk, provider, usd_per_million_in=3.5, usd_per_million_out=15))
    assert (ask.state, ask.tokens_in, ask.cost_usd) == ("ok", None, None), ask.why


@pytest.mark.parametrize(
    ("status", "body", "state", "told"),
    [
        (
            429,
            {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}},
            "rate_limited",
            "Rate limit",
        ),
        (401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, "infra", "Incorrect API key"),
        (404, {"error": {"message": "no such model"}}, "infra", "no such model"),
        (400, {"error": {"message": "flagged", "code": "content_filter"}}, "content_policy", "flagged"),
        (
            400,
            {"error": {"message": "too many tokens", "code": "context_length_exceeded"}},
            "failed",
            "too many tokens",
        ),
        (503, {"error": {"message": "overloaded"}}, "infra", "503"),
        (500, b"<html><script>alert(1)</script>", "infra", "500"),
        (200, b"not json", "no_status", "not a chat completion"),
        (200, {"choices": []}, "no_status", "not a chat completion"),
        (200, {"choices": [{"message": "x"}]}, "no_status", "not a chat completion"),
        (200, [], "no_status", "not a chat completion"),
    ],
)
def test_each_refusal_has_its_outcome(
    desk: Desk, provider: Provider, status: int, body: Any, state: str, told: str
) -> None:
    provider.status, provider.body = status, body
    ask = desk.asked(looker(desk, provider))
    assert ask.state == state and told in ask.why, ask.why
    assert len(provider.asked) == 1, "nothing is tried again behind the back of who asked"


@pytest.mark.parametrize(
    ("choice", "state"),
    [
        ({"finish_reason": "content_filter"}, "content_policy"),
        ({"message": {"role": "assistant", "content": None, "refusal": "I can't help with that."}}, "content_policy"),
        ({"finish_reason": "length"}, "failed"),
        ({"message": {"role": "assistant", "content": None}}, "no_status"),
        ({"message": {"role": "assistant", "content": "It looks good to me."}}, "no_status"),
    ],
)
def test_what_the_model_did_not_say_is_no_answer(desk: Desk, provider: Provider, choice: Any, state: str) -> None:
    provider.says, provider.choice = GOOD, choice
    ask = desk.asked(looker(desk, provider))
    assert ask.state == state and ask.result is None, ask.why


def test_silence_and_a_trickle_end_in_time(desk: Desk, provider: Provider) -> None:
    provider.says, provider.wait_s = GOOD, 30
    agent = looker(desk, provider)
    Agent.objects.update(time_limit_s=2)
    begun = time.monotonic()
    assert desk.asked(agent).state == "timed_out"
    provider.wait_s, provider.drip_s = 0, 0.5  # each byte well within any limit for one read
    assert desk.asked(agent).state == "timed_out"
    assert time.monotonic() - begun < 60


def test_more_than_is_kept_is_cut(desk: Desk, provider: Provider) -> None:
    provider.body = b"x" * (6 * 1024 * 1024)
    ask = desk.asked(looker(desk, provider))
    assert ask.state == "failed" and ask.raw_cut and ask.raw_bytes == 5 * 1024 * 1024


def test_a_secret_across_the_end_of_what_is_kept_leaves_no_head(desk: Desk, provider: Provider) -> None:
    provider.body = b"." * (5 * 1024 * 1024 - 4) + KEY.encode() + b"." * 200_000
    ask = desk.asked(looker(desk, provider))
    assert ask.raw_cut and KEY[:4] not in store.read(ask.raw_sha256).decode()


def test_nobody_at_the_address(desk: Desk, provider: Provider) -> None:
    ask = desk.asked(looker(desk, provider, base_url="http://127.0.0.1:9/v1"))
    assert ask.state == "infra" and "can't be reached" in ask.why


def test_without_its_key_it_is_not_asked(desk: Desk, provider: Provider, monkeypatch: Any) -> None:
    monkeypatch.delenv("LOOKER_KEY")
    ask = desk.asked(looker(desk, provider))
    assert ask.state == "infra" and "LOOKER_KEY" in ask.why
    assert not provider.asked


def test_a_key_from_a_file_that_is_told_back_is_struck(desk: Desk, provider: Provider) -> None:
    path = desk.folder / "key"
    path.write_text(KEY + "\n")
    provider.says = json.dumps({"status": "ok", "verdict": "bad", "reason": f"your key is {KEY}"})
    ask = desk.asked(looker(desk, provider, key_variable=None, key_file=str(path)))
    assert provider.keys == [f"Bearer {KEY}"]
    assert ask.reason == "your key is [redacted]"
    assert KEY.encode() not in store.read(ask.raw_sha256)


def test_pictures_go_along_where_the_model_takes_any(desk: Desk, provider: Provider) -> None:
    picture = desk.folder / "p.png"
    picture.write_bytes(b"png")
    digest = hashlib.sha256(b"png").hexdigest()
    facts = {"name": "p.png", "path": str(picture), "media_type": "image/png", "sha256": digest}
    provider.says = GOOD
    assert desk.asked(looker(desk, provider, pictures=True), pictures=[facts]).state == "ok"
    text, image = provider.asked[0]["messages"][0]["content"]
    assert text["type"] == "text" and image["image_url"]["url"] == "data:image/png;base64,cG5n"
