"""A forgotten password, where mail can be sent: its owner asks for a link, and gets it by mail."""

import logging
from datetime import timedelta
from smtplib import SMTPException

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db.models import Q
from django.template.loader import render_to_string
from django.utils import timezone
from django_q.tasks import async_task

from conductor_site.accounts.addresses import site_address
from conductor_site.accounts.links import PASSWORD_LIFE_H, revoke_links
from conductor_site.accounts.passwords import make_password_link
from conductor_site.api.limits import count_request
from conductor_site.models import LinkKind, OneTimeLink
from record.services import Author

log = logging.getLogger(__name__)
MAILS_AN_HOUR = 3
ASKED_A_MINUTE = 10
ASKED = "forgotten password"


def can_mail() -> bool:
    """Whether mail can leave, and the site knows the address that a mail must name."""
    return bool(settings.EMAIL_HOST and settings.BASE_URL)


def ask_for_password_link(*, name: str, address: str) -> None:
    """Have a link mailed to whoever has this user name or e-mail address. Tells nobody whether there is such a person.

    Who can't get one (no address, no password here, an agent, closed, asked too often) gets none. Mail is a task's: a
    slow mail server keeps no page waiting. One task is made whoever is asked for, so that how long the page takes tells
    nothing either; those who ask from one `address` have ASKED_A_MINUTE of them, so that nobody fills the queue.
    """
    if not can_mail() or "\0" in name or count_request(f"forgotten {address}") > ASKED_A_MINUTE:
        return
    people = User.objects.filter(Q(username=name) | Q(email__iexact=name), is_active=True, agent_account=None)
    found = [user.pk for user in people.exclude(email="")[:5] if user.has_usable_password()]
    async_task("conductor_site.accounts.forgotten.mail_password_links", found)


def mail_password_links(user_ids: list[int]) -> int:
    """Mail a link to each of these people; to how many."""
    return sum(mail_password_link(user_id) for user_id in user_ids)


def mail_password_link(user_id: int) -> bool:
    """Make a link and mail it; whether it was. Links that administrators made stay good beside it."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None or not user.has_usable_password() or not user.email or _asked_too_often(user):
        return False
    made = make_password_link(user=user, author=Author.policy(ASKED), replacing=False)
    context = {"user": user, "address": site_address("new-password", made.secret), "hours": PASSWORD_LIFE_H}
    text = render_to_string("accounts/mail_password.txt", context)
    try:
        send_mail("Conductor: a new password", text, None, [user.email])
    except (SMTPException, OSError) as error:
        revoke_links(OneTimeLink.objects.filter(pk=made.row.pk))
        log.error("the link for a new password of %s could not be mailed: %s", user.get_username(), error)
        return False
    return True


def _asked_too_often(user: User) -> bool:
    """Whether so many mails went out within the hour that another would only be a nuisance."""
    since = timezone.now() - timedelta(hours=1)
    mailed = OneTimeLink.objects.filter(kind=LinkKind.PASSWORD, user=user, made_by=None, made_at__gt=since)
    return mailed.count() >= MAILS_AN_HOUR
