"""Evidence that people and agents add to a gate, where its protocol lets them.

What is added belongs to this iteration of the gate alone. At an open gate it changes what is shown, and with it the
digest that answers are bound to: an answer to what was shown before is refused, and ballots cast on it count no more.
"""

import re
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from gates import store
from gates.answers import unprintable
from gates.digest import evidence_digest, items_of
from gates.errors import GateClosed, NoAdditions
from gates.models import Evidence, EvidenceKind, Gate
from gates.protocols import protocol_for
from gates.quota import over_quota
from gates.services.locking import lock_gate
from gates.services.people import require_any
from gates.states import GateState
from record.access import Ability
from record.errors import BadInput, StaleState
from record.services import Author, record_event

FOLDER = "added/"  # no renderer names anything so: theirs begin with a number
MAX_ADDED = 200
KINDS = (EvidenceKind.IMAGE, EvidenceKind.TABLE, EvidenceKind.CURVE, EvidenceKind.LOG)  # a stack is many files
_TAKES = frozenset({GateState.PREPARING, GateState.OPEN})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Addition:
    """What somebody says of the file that they add. `name` is that of a file; its ending tells texts apart."""

    name: str
    kind: str
    title: str = ""
    caption: str = ""
    item: str = ""


def check_adding(*, gate: Gate, author: Author, addition: Addition) -> None:
    """Raise what adding it would raise for certain, so that no large file is read in vain."""
    require_any(author, gate.lab_id, Ability.OPERATE, Ability.ANSWER, what="add evidence")
    if not protocol_for(gate).takes_additions(gate):
        raise NoAdditions(f"{gate.title} ({gate.context}) takes no evidence but its own: its pipeline says so.")
    if not _NAME.fullmatch(addition.name):
        raise BadInput(
            f"{addition.name[:60]!r} can't be a name: take 1 to 100 letters (A-Z), digits, dots, - and _, beginning "
            "with a letter or a digit."
        )
    if addition.kind not in KINDS:
        raise BadInput(f"{addition.kind[:40]!r} can't be added; choose one of: {', '.join(KINDS)}.")
    for text in (addition.title, addition.caption, addition.item):
        if unprintable(text):
            raise BadInput("What is said of the file holds control characters, which can't be shown.")


def add_evidence(
    *, gate_id: int, author: Author, addition: Addition, incoming: store.Incoming, sha256: str
) -> tuple[Evidence, bool]:
    """Keep a file that has come in whole and show it at the gate: the piece, and whether it is new.

    The same file under the same name again changes nothing, also once the gate is closed. Raises BadInput where the
    bytes are not those of `sha256`, are not fit to be shown, or the gate is full; GateClosed, StaleState where another
    file has the name; and what check_adding raises.
    """
    if incoming.sha256 != sha256:
        raise BadInput(
            f"{addition.name} arrived with the SHA-256 {incoming.sha256[:12]}…, not {sha256[:12]}…: it was not kept. "
            "Send it again.",
            code="digest_mismatch",
        )
    with transaction.atomic():  # asked before the bytes are kept, too: what is refused must take no room
        _find_or_refuse(lock_gate(gate_id), author, addition, incoming)
    stored = incoming.keep(kind=addition.kind)
    with transaction.atomic():
        gate = lock_gate(gate_id)
        if earlier := _find_or_refuse(gate, author, addition, incoming):
            return earlier, False
        piece = _show(gate, author, addition, stored)
        ballots = _change_what_is_shown(gate)
        record_event(
            lab_id=gate.lab_id,
            kind="gate.add_evidence",
            subject=gate.subject(),
            message=f"{gate.title}, {gate.context}: {author.name} added {piece.name}",
            data={"name": piece.name, "sha256": piece.sha256, "ballots_set_aside": ballots},
        )
    return piece, True


def added_since(gate: Gate, digest: str) -> list[str] | None:
    """Names of what was added since the gate showed `digest`, in their order; None where it never did."""
    items = items_of(gate)
    added = list(gate.evidence.exclude(added_at=None).order_by("-id").values_list("name", flat=True))
    for count, name in enumerate(added, start=1):
        del items[name]
        if evidence_digest(items, gate.suggestion) == digest:
            return sorted(added[:count])
    return None


def _find_or_refuse(gate: Gate, author: Author, addition: Addition, incoming: store.Incoming) -> Evidence | None:
    """The piece, where it is shown already; None where it may be added; else why not is raised."""
    check_adding(gate=gate, author=author, addition=addition)
    earlier = _same_name(gate, addition, incoming.sha256)
    if earlier is None:
        _refuse_adding(gate, addition, incoming.size_bytes)
    return earlier


def _same_name(gate: Gate, addition: Addition, sha256: str) -> Evidence | None:
    earlier = gate.evidence.filter(name=FOLDER + addition.name).first()
    if earlier is not None and (earlier.sha256, earlier.kind) != (sha256, addition.kind):
        raise StaleState(
            f"There is another {addition.name} at this gate already, added by {earlier.added_by_name}. "
            "Evidence is never replaced: give yours another name.",
            code="name_taken",
        )
    return earlier


def _refuse_adding(gate: Gate, addition: Addition, size_bytes: int) -> None:
    if gate.state not in _TAKES:
        raise GateClosed(
            f"{gate.title} ({gate.context}) is {gate.state_text}: evidence is added while a gate is being prepared or "
            "open. Reopen it to have more looked at.",
            extra={"state": gate.state},
        )
    pieces = list(gate.evidence.values_list("added_at", "size_bytes", "item"))
    if sum(added_at is not None for added_at, _, _ in pieces) >= MAX_ADDED or len(pieces) >= store.MAX_PIECES:
        raise BadInput(f"This gate is full: {MAX_ADDED} pieces can be added to what it shows.", code="gate_full")
    if sum(size for _, size, _ in pieces) + size_bytes > store.MAX_GATE_BYTES:
        raise BadInput(f"This gate is full: it shows {store.MAX_GATE_BYTES} bytes at most.", code="gate_full")
    if words := over_quota(gate.lab, [{"size_bytes": size_bytes}]):
        raise BadInput(words, code="over_quota")
    items = sorted({item for _, _, item in pieces if item})
    if addition.item and gate.state == GateState.OPEN and addition.item not in items:
        raise BadInput(
            f"This gate shows nothing of {addition.item[:60]!r}, so nothing can be added to it. It shows: "
            f"{', '.join(items[:20]) or 'no items'}."
        )


def _show(gate: Gate, author: Author, addition: Addition, stored: store.Stored) -> Evidence:
    return Evidence.objects.create(
        gate=gate,
        name=FOLDER + addition.name,
        kind=addition.kind,
        title=addition.title,
        caption=addition.caption,
        item=addition.item,
        media_type=stored.media_type,
        sha256=stored.sha256,
        size_bytes=stored.size_bytes,
        added_by=author.user,
        added_by_name=author.name[:200],
        added_at=timezone.now(),
    )


def _change_what_is_shown(gate: Gate) -> int:
    """Give an open gate the digest of what it shows now; how many ballots count no more."""
    if gate.state != GateState.OPEN:
        return 0
    gate.digest = evidence_digest(items_of(gate), gate.suggestion)
    gate.save(update_fields=["digest"])
    return gate.ballots.filter(replaced_at=None).update(replaced_at=timezone.now())
