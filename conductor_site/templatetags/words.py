"""Times, amounts and states as people read them."""

from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

# state -> (its look, its word); the look gives colour and shape, the word is always there too.
LOOKS: dict[str, tuple[str, str]] = {
    "pending": ("idle", "pending"),
    "planned": ("idle", "planned"),
    "ready": ("idle", "ready"),
    "queued": ("idle", "queued"),
    "submitting": ("running", "submitting"),
    "running": ("running", "running"),
    "verifying": ("running", "verifying"),
    "checkpoint": ("idle", "at its gate"),
    "preparing": ("running", "evidence being prepared"),
    "prepare_failed": ("failed", "evidence failed"),
    "open": ("waiting", "open"),
    "decided": ("running", "decided, being applied"),
    "applying": ("running", "being applied"),
    "apply_failed": ("failed", "applying failed"),
    "applied": ("done", "decided"),
    "done": ("done", "done"),
    "succeeded": ("done", "succeeded"),
    "failed": ("failed", "failed"),
    "timed_out": ("failed", "timed out"),
    "out_of_memory": ("failed", "out of memory"),
    "node_failed": ("failed", "node failed"),
    "preempted": ("failed", "preempted"),
    "lost": ("failed", "lost: held"),
    "unknown": ("idle", "not heard of"),
    "skipped": ("skipped", "skipped"),
    "withdrawn": ("skipped", "withdrawn"),
    "cancelled": ("skipped", "cancelled"),
    "paused": ("skipped", "paused"),
    "archived": ("skipped", "archived"),
    "stale": ("stale", "stale"),
    "sending": ("running", "being sent"),
    "sent": ("done", "sent"),
    "given_up": ("failed", "given up"),
    "dropped": ("skipped", "not needed"),
    "good": ("done", "good"),
    "suspect": ("suspect", "suspect"),
    "bad": ("failed", "bad"),
    "waiting": ("idle", "waits"),
    "asked": ("running", "being asked"),
    "ok": ("done", "answered"),
    "blocked": ("skipped", "can't say"),
    "infra": ("failed", "could not be asked"),
    "rate_limited": ("skipped", "rate limited"),
    "content_policy": ("failed", "content policy"),
    "no_status": ("failed", "unreadable"),
    "approve": ("done", "approved"),
    "send_back": ("skipped", "sent back"),
    "reject": ("failed", "rejected"),
}


@register.simple_tag
def status(state: str, word: str = "") -> SafeString:
    """A state as colour, shape and word."""
    look, plain = LOOKS.get(state, ("idle", state.replace("_", " ")))
    return format_html('<span class="st st-{}">{}</span>', look, word or plain)


@register.filter
def look(state: str) -> str:
    """The look of a state, for what is drawn in its colour."""
    return LOOKS.get(state, ("idle", ""))[0]


@register.filter
def duration(seconds: float | timedelta | None) -> str:
    """A length of time in its two largest units: 2 h 41 min."""
    if seconds is None:
        return ""
    total = int(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)
    if total < 60:
        return f"{max(total, 0)} s"
    for size, unit, part, part_unit in [(86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")]:
        if total >= size:
            rest = total % size // part
            if unit == "min" and total >= 600:
                rest = 0
            return f"{total // size} {unit}" + (f" {rest} {part_unit}" if rest else "")
    return f"{total} s"


@register.filter
def since(at: datetime | None) -> str:
    """How long ago something was, without the word: 40 s, 12 min, 4 h, 3 d 2 h."""
    if at is None:
        return ""
    seconds = (timezone.now() - at).total_seconds()
    for unit_s in (86_400, 3600, 60):
        if seconds >= unit_s:
            coarse_s = 3600 if unit_s == 86_400 and seconds < 3 * 86_400 else unit_s
            return duration(seconds // coarse_s * coarse_s)
    return duration(seconds)


@register.filter
def until(at: datetime | None) -> str:
    """How long until something is due: in 23 h, or overdue by 2 h."""
    if at is None:
        return ""
    left_s = (at - timezone.now()).total_seconds()
    return f"in {duration(left_s)}" if left_s > 0 else f"overdue by {duration(-left_s)}"


@register.simple_tag
def ago(at: datetime | None) -> SafeString | str:
    """A moment as a <time>: how long ago, the full date on hovering."""
    if at is None:
        return ""
    local = timezone.localtime(at)
    words = "just now" if (timezone.now() - at).total_seconds() < 5 else f"{since(at)} ago"
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', local.isoformat(), local.strftime("%-d %B %Y, %H:%M:%S %Z"), words
    )


@register.simple_tag
def moment(at: datetime | None) -> SafeString | str:
    """A moment as a <time> with its date and minute."""
    if at is None:
        return ""
    local = timezone.localtime(at)
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), local.strftime("%-d %b %Y, %H:%M %Z"))


@register.filter
def filesize(size: int | None) -> str:
    """Bytes with a binary unit: 1.5 MiB."""
    if size is None:
        return ""
    if size < 1024:
        return f"{size} B"
    amount, unit = float(size), "B"
    for each in ("KiB", "MiB", "GiB", "TiB"):
        amount, unit = amount / 1024, each
        if amount < 1024:
            break
    return f"{amount:.1f} {unit}"


@register.filter
def short(digest: str) -> str:
    """A digest as people compare it: its first six and last two characters."""
    return f"{digest[:6]}…{digest[-2:]}" if len(digest) > 10 else digest


@register.filter
def words(name: str) -> str:
    """A key as words: send_back -> send back. Names in capitals are those of conf values and stay as they are."""
    return str(name).replace("_", " ") if str(name).islower() else str(name)


@register.filter
def without(text: str, name: str) -> str:
    """A message of the log on the page of the run called `name`, which need not be named there again."""
    return text.replace(f"{name}, ", "").replace(f"job {name} ", "job ") if len(name) > 2 else text


@register.filter
def lookup(mapping: dict[str, object] | None, key: str) -> object:
    """mapping[key], or nothing."""
    return (mapping or {}).get(key, "")
