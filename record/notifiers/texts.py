"""A message as plain text, and as HTML that needs neither scripts nor anything from another host."""

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from record.notifiers import Item, Message

_INK, _QUIET, _LINE, _ACCENT = "#1d1f21", "#6a6d71", "#e3e0da", "#1f5fa8"


def plain(message: Message) -> str:
    """The whole message as plain text, links on lines of their own."""
    return "\n\n".join(_plain_item(item, several=len(message.items) > 1) for item in message.items) + "\n"


def short_html(message: Message) -> str:
    """The message in the few tags that chat programs show."""
    return "<br><br>".join(_short_item(item) for item in message.items)


def page(message: Message, pictures: dict[str, str]) -> str:
    """The message as a page for mail programs; `pictures` is caption -> address within the mail (cid:...)."""
    items = "".join(_item(item) for item in message.items)
    shown = "".join(_figure(caption, address) for caption, address in pictures.items())
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light"></head>'
        f'<body style="margin:0;padding:16px;font:15px/1.5 system-ui,sans-serif;color:{_INK};background:#ffffff">'
        f'<div style="max-width:600px">{items}{shown}'
        f'<p style="color:{_QUIET};font-size:13px;margin:20px 0 0">Opening a link decides nothing: you are asked there.'
        " What you hear of is set on the page “Notices”.</p></div></body></html>"
    )


def _plain_item(item: Item, *, several: bool) -> str:
    when = [f"{item.at:%Y-%m-%d %H:%M} UTC"] if several else []
    return "\n".join([item.title, *item.lines, *when, *([item.link] if item.link else [])])


def _short_item(item: Item) -> SafeString:
    title = _linked(item)
    lines = "".join(f"<br>{escape(line)}" for line in item.lines)
    return mark_safe(f"<strong>{title}</strong>{lines}")  # noqa: S308  (each part is escaped)


def _linked(item: Item) -> str:
    return f'<a href="{escape(item.link)}">{escape(item.title)}</a>' if item.link else str(escape(item.title))


def _item(item: Item) -> str:
    lines = "".join(f'<p style="margin:4px 0 0">{escape(line)}</p>' for line in item.lines)
    button = (
        f'<p style="margin:12px 0 0"><a href="{escape(item.link)}" style="display:inline-block;padding:10px 16px;'
        f'border-radius:6px;background:{_ACCENT};color:#ffffff;text-decoration:none;font-weight:600">Open it</a></p>'
        if item.link
        else ""
    )
    return (
        f'<div style="border-bottom:1px solid {_LINE};padding:0 0 16px;margin:0 0 16px">'
        f'<p style="margin:0;font-weight:600;font-size:17px">{escape(item.title)}</p>{lines}'
        f'<p style="margin:4px 0 0;color:{_QUIET};font-size:13px">{item.at:%Y-%m-%d %H:%M} UTC</p>{button}</div>'
    )


def _figure(caption: str, address: str) -> str:
    words = f'<figcaption style="color:{_QUIET};font-size:13px">{escape(caption)}</figcaption>'
    return (
        f'<figure style="margin:0 0 12px"><img src="{escape(address)}" alt="{escape(caption)}" '
        f'style="max-width:100%;border-radius:6px;display:block">{words}</figure>'
    )
