"""Commands that are sent again: under one key, a person gets the first answer once more, and nothing is done twice.

A script that got no answer can't know whether its command was carried out. With a key it just sends it again. Keys are
a person's own, and are forgotten after some days (settings.REPEATS_KEPT_DAYS).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from record.canonical import canonical_text, sha256_hex
from record.errors import BadInput, ConductorError
from record.models import KeptAnswer

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_CHARS = 200
# Longer than any command takes: a key taken so long ago, without an answer, was left by a process that died.
ABANDONED_AFTER_S = 10 * 60
_KEPT_HEADERS = ("Location",)
_UNKEPT = frozenset({401, 429})  # they speak of the asker at that moment, not of the command


class KeyReused(ConductorError):
    """The key came before with something else."""

    status = 422
    code = "key_reused"


class StillRunning(ConductorError):
    """The first command with this key has not been answered yet."""

    status = 409
    code = "still_running"


class _TakenMeanwhile(Exception):
    """Another request was first to come with this key."""


@dataclass(frozen=True)
class Repeat:
    """Whose key it is, and what it came with."""

    user: User
    key: str
    fingerprint: str


def read_key(header: str) -> str:
    """The key in an Idempotency-Key header, with or without quotes; BadInput for one that can't be one."""
    key = header.strip().removeprefix('"').removesuffix('"')
    if not (key.isascii() and key.isprintable() and 0 < len(key) <= KEY_CHARS):
        raise BadInput(f"The header {HEADER} holds 1 to {KEY_CHARS} printable ASCII characters; a UUID will do.")
    return key


def fingerprint(request: Request) -> str:
    """Hex SHA-256 over what is asked: verb, address, and body, whatever the order of its names."""
    asked = {"method": request.method, "address": request.get_full_path(), "body": request.data}
    return sha256_hex(canonical_text(asked))


def answer_once(
    *,
    repeat: Repeat,
    respond: Callable[[], Response],
    refuse: Callable[[Exception], Response],
    in_one_transaction: bool = True,
) -> HttpResponse:
    """Carry the command out and keep its answer, or give the one that is kept under the key.

    `respond` carries it out; `refuse` turns what it raises into an answer, which is kept too, unless it is a fault or
    speaks of something that passes. Raises KeyReused where the key came with something else, StillRunning where the
    first command is still being carried out.
    """
    carry_out = _together if in_one_transaction else _apart
    kept = _find(repeat)
    if kept is None:
        try:
            return carry_out(repeat, respond, refuse)
        except _TakenMeanwhile:
            kept = _find(repeat)
    if kept is None:
        raise StillRunning("Another request with this key was just given up; send it again.", extra={"wait_s": 1})
    return _replay(kept)


def _together(repeat: Repeat, respond: Callable[[], Response], refuse: Callable[[Exception], Response]) -> HttpResponse:
    """Key, command and answer in one transaction: after a crash there are all of them, or none."""
    try:
        with transaction.atomic():
            row = _take(repeat)
            answer = respond()
            _keep(row, answer)
        return answer
    except _TakenMeanwhile:
        raise
    except Exception as error:  # turned into an answer by the one function that tells refusals from faults
        answer = refuse(error)
    if _is_kept(answer):
        with transaction.atomic():
            _keep(_take(repeat), answer)
    return answer


def _apart(repeat: Repeat, respond: Callable[[], Response], refuse: Callable[[Exception], Response]) -> HttpResponse:
    """The key is taken first, so that no other request does the same meanwhile."""
    row = _take(repeat)
    try:
        answer = respond()
    except Exception as error:  # as above
        answer = refuse(error)
    if _is_kept(answer):
        _keep(row, answer)
    else:
        row.delete()
    return answer


def _is_kept(answer: Response) -> bool:
    return answer.status_code < 500 and answer.status_code not in _UNKEPT


def _find(repeat: Repeat) -> KeptAnswer | None:
    """What is kept under the key, if it is not too old, nor left unanswered by a process that died."""
    row = KeptAnswer.objects.kept().filter(user_id=repeat.user.pk, key=repeat.key).first()
    if row is None or (row.status is None and row.at < _abandoned()):
        return None
    if row.fingerprint != repeat.fingerprint:
        raise KeyReused(
            f"The key {repeat.key[:60]!r} came before with another command or another body. Nothing was changed; "
            "use a new key for each command."
        )
    if row.status is None:
        raise StillRunning("The command that came first with this key is still being carried out.", extra={"wait_s": 1})
    return row


def _take(repeat: Repeat) -> KeptAnswer:
    """The key's row, to be answered; _TakenMeanwhile where another has it. What counts no longer makes room."""
    mine = KeptAnswer.objects.filter(user_id=repeat.user.pk, key=repeat.key)
    mine.expired().delete()
    mine.filter(status=None, at__lt=_abandoned()).delete()
    try:
        with transaction.atomic():
            return KeptAnswer.objects.create(user=repeat.user, key=repeat.key, fingerprint=repeat.fingerprint)
    except IntegrityError as error:
        raise _TakenMeanwhile from error


def _keep(row: KeptAnswer, answer: Response) -> None:
    KeptAnswer.objects.filter(pk=row.pk).update(
        status=answer.status_code,
        body=JSONRenderer().render(answer.data).decode(),
        media_type=answer.content_type or JSONRenderer.media_type,
        headers={name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
    )


def _replay(row: KeptAnswer) -> HttpResponse:
    headers: dict[str, Any] = row.headers | {REPLAYED: "true"}
    return HttpResponse(row.body, status=row.status, content_type=row.media_type, headers=headers)


def _abandoned() -> datetime:
    return timezone.now() - timedelta(seconds=ABANDONED_AFTER_S)
