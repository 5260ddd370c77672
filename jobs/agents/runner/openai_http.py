"""Asks a model behind an OpenAI-compatible HTTP interface (POST …/chat/completions), with the `openai` package.

The model runs elsewhere: nothing of it comes here but its words. The key is read from a variable or a file that the
agent's configuration names. Nothing is tried twice: whoever asked decides whether to ask again.
"""

import base64
import json
import signal
from pathlib import Path
from typing import Any

from jobs.agents.runner.report import ANSWERED, MAX_RAW_BYTES, READ_BYTES, Answer

ELSEWHERE = "elsewhere"
CONTENT_CODES = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")


class Late(Exception):
    """The time is up."""


class TooMuch(Exception):
    """More came than is kept."""

    def __init__(self, body: bytes) -> None:
        super().__init__("more came than is kept")
        self.body = body


def ask(order: dict[str, Any], folder: str) -> Answer:
    """Put the question and wait for the answer, within the time limit; whatever becomes of it ends in one answer."""
    try:
        import openai
    except ImportError:
        return Answer("infra", "The package openai is not installed here: pip install -r requirements-agents.txt.")
    if not order["key"]:
        return Answer("infra", _no_key(order["configuration"]), isolation=ELSEWHERE)
    limit_s = order["time_limit_s"]
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)  # the client's own limits are for each read, not for the whole
    try:
        body = _post(openai, order, limit_s)
    except (Late, openai.APITimeoutError):
        return Answer("timed_out", f"No answer came within {limit_s} s.", isolation=ELSEWHERE)
    except TooMuch as error:
        said = f"More than {MAX_RAW_BYTES // 1024 // 1024} MiB came; the first are kept."
        return Answer("failed", said, raw=error.body, cut=True, isolation=ELSEWHERE)
    except openai.APIStatusError as error:
        return _refused(error)
    except openai.APIConnectionError as error:
        why = str(error.__cause__ or error)
        return Answer("infra", f"{order['configuration']['base_url']} can't be reached: {why}", isolation=ELSEWHERE)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return _read(body, order["configuration"])


def _post(openai: Any, order: dict[str, Any], limit_s: int) -> bytes:
    settings = order["configuration"]
    client = openai.OpenAI(base_url=settings["base_url"], api_key=order["key"], max_retries=0, timeout=limit_s)
    call = client.chat.completions.with_streaming_response.create(
        model=settings["model"],
        messages=[{"role": "user", "content": _content(order)}],
        stream=False,
        extra_body=settings.get("parameters") or None,
    )
    body = bytearray()
    with call as response:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > READ_BYTES:
                break
    if len(body) > MAX_RAW_BYTES:
        raise TooMuch(bytes(body[:READ_BYTES]))
    return bytes(body)


def _content(order: dict[str, Any]) -> Any:
    """The prompt, and the pictures where the model takes any."""
    if not order["configuration"].get("pictures") or not order["attachments"]:
        return order["prompt"]
    parts: list[dict[str, Any]] = [{"type": "text", "text": order["prompt"]}]
    for each in order["attachments"]:
        data = base64.b64encode(Path(each["path"]).read_bytes()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:{each['media_type']};base64,{data}"}})
    return parts


def _read(body: bytes, settings: dict[str, Any]) -> Answer:
    """The answer in a body as the interface documents it (object `chat.completion`)."""
    answer = Answer(ANSWERED, raw=body, isolation=ELSEWHERE)
    try:
        told = json.loads(body)
        choice = told["choices"][0]
        message = choice["message"]
        text = message.get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        answer.outcome, answer.message = "no_status", "What came is not a chat completion."
        return answer
    answer.facts = _facts(told, settings)
    if choice.get("finish_reason") == "content_filter" or message.get("refusal"):
        answer.outcome = "content_policy"
        answer.message = str(message.get("refusal") or "The provider's content filter ended the answer.")
    elif choice.get("finish_reason") == "length":
        answer.outcome, answer.message = "failed", "The answer was cut off: it is longer than the provider allows."
    answer.text = text if isinstance(text, str) else ""
    return answer


def _facts(told: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Model and tokens as the provider tells them; the cost (US dollars) where prices (a million tokens) are given."""
    usage: Any = told.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    facts = {"model": str(told.get("model", "")), "tokens_in": tokens_in, "tokens_out": tokens_out}
    price_in, price_out = settings.get("usd_per_million_in"), settings.get("usd_per_million_out")
    counted = all(type(each) is int and 0 <= each < 2**53 for each in (tokens_in, tokens_out))
    if counted and all(isinstance(each, int | float) for each in (price_in, price_out)):
        facts["cost_usd"] = (price_in * tokens_in + price_out * tokens_out) / 1e6
    return facts


def _refused(error: Any) -> Answer:
    """An HTTP status that says no, by what it means."""
    said = f"The provider answered {error.status_code}: {error.message}"
    raw = error.response.content[:READ_BYTES] if _was_read(error.response) else b""
    code = f"{getattr(error, 'code', '')} {getattr(error, 'type', '')} {said}".lower()
    if error.status_code == 429:
        outcome = "rate_limited"
    elif error.status_code in (400, 403, 451) and any(each in code for each in CONTENT_CODES):
        outcome = "content_policy"
    elif error.status_code in (408, 504):
        outcome = "timed_out"
    else:
        outcome = "infra" if error.status_code in (401, 403, 404) or error.status_code >= 500 else "failed"
    return Answer(outcome, said, raw=raw, isolation=ELSEWHERE)


def _was_read(response: Any) -> bool:
    return bool(getattr(response, "is_stream_consumed", False)) and hasattr(response, "_content")


def _no_key(settings: dict[str, Any]) -> str:
    where = settings.get("key_variable") or settings.get("key_file")
    return f"There is no key in {where}: it is missing or empty for jobs on this target."


def _ring(*_: Any) -> None:
    raise Late
