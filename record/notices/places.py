"""What a notifier is told of a channel: the place, its secret, and what of the settings it needs."""

from django.conf import settings

from record.notices.models import Channel, ChannelKind
from record.notices.secrets import secret_of, variable_of
from record.notifiers import SendFailure, Where
from record.notifiers.mail import MailServer


def place_of(channel: Channel, recipient: str = "") -> Where:
    """Where to send for this channel (and recipient); SendFailure, in words, where something is missing."""
    if channel.kind == ChannelKind.EMAIL:
        return Where(recipient or _own_address(channel), options={"server": mail_server()})
    name, secret = variable_of(channel), secret_of(channel)
    if not secret:
        raise SendFailure(f"The channel has no secret yet: {how_to_give(channel)}.", everywhere=True)
    options = {"variable": name, "private": settings.WEBHOOK_PRIVATE, "sign_in": how_to_give(channel)}
    return Where(channel.address, secret, options)


def how_to_give(channel: Channel) -> str:
    """How the channel's secret is given, in words."""
    if channel.lab is None:
        return "none is needed"
    if channel.kind == ChannelKind.MATRIX:
        return f"manage.py matrix_sign_in {channel.lab.slug} {channel.identity or 'conductor'}"
    return f"manage.py notice_secret {channel}, or the variable {variable_of(channel)}"


def mail_server() -> MailServer:
    """The mail server of the settings; without a host where none is set."""
    return MailServer(
        host=settings.EMAIL_HOST,
        port=settings.EMAIL_PORT,
        user=settings.EMAIL_HOST_USER,
        password=settings.EMAIL_HOST_PASSWORD,
        security=settings.EMAIL_SECURITY,
        sender=settings.DEFAULT_FROM_EMAIL,
    )


def _own_address(channel: Channel) -> str:
    address = channel.owner.email if channel.owner else ""
    if not address:
        raise SendFailure("The person has no e-mail address.", transient=False)
    return address
