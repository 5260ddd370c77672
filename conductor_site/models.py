"""What the doors of the site keep: API tokens, one-time links, identities elsewhere, and sign-ins that failed."""

from datetime import datetime

from django.conf import settings
from django.db import models
from django.utils import timezone
from knox.models import AbstractAuthToken

from record.access import Scope
from record.models import Identified, Lab, Role


class ApiToken(AbstractAuthToken):
    """A token for the API, of a person or an agent, kept as a hash; `token_key`, its first letters, names it."""

    name = models.CharField(max_length=80, help_text="what it is for, in its owner's words")
    scopes = models.JSONField(default=list, help_text="names of record.access.Scope")
    last_used_at = models.DateTimeField(null=True, help_text="to the minute")
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="tokens_made_for_agents"
    )

    class Meta:
        ordering = ["-created"]

    def __str__(self) -> str:
        return f"{self.name} ({self.user})"

    @property
    def scope_names(self) -> str:
        """Its scopes in the order in which they are always told."""
        return ", ".join(scope for scope in Scope if scope in self.scopes)

    @property
    def has_expired(self) -> bool:
        return self.expiry is not None and self.expiry <= timezone.now()


class LinkKind(models.TextChoices):
    """What a one-time link is for."""

    INVITATION = "invitation", "invitation into a lab"
    FIRST_ADMINISTRATOR = "first", "first administrator"
    PASSWORD = "password", "new password"  # noqa: S105 (a kind of link)


class LinkState(models.TextChoices):
    """Where a one-time link stands."""

    OPEN = "open"
    USED = "used"
    REVOKED = "revoked"
    EXPIRED = "expired"


class OneTimeLink(Identified):
    """A link that lets whoever holds it in once: into a lab, or to a new password. Of its secret a hash is kept."""

    kind = models.CharField(max_length=12, choices=LinkKind)
    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the secret")
    lab = models.ForeignKey(Lab, null=True, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=20, choices=Role, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+", help_text="whose password"
    )
    note = models.CharField(max_length=120, blank=True, help_text="for whom, in the words of who made it")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-made_at"]
        constraints = [
            models.CheckConstraint(
                name="link_says_for_what",
                condition=models.Q(kind="password", user__isnull=False, lab=None, role="")
                | (models.Q(kind__in=["invitation", "first"], user=None, lab__isnull=False) & ~models.Q(role="")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}, made {self.made_at:%Y-%m-%d %H:%M}"

    def state_at(self, moment: datetime) -> LinkState:
        """Where it stands at that moment."""
        if self.used_at:
            return LinkState.USED
        if self.revoked_at:
            return LinkState.REVOKED
        return LinkState.EXPIRED if self.expires_at <= moment else LinkState.OPEN

    @property
    def state(self) -> LinkState:
        return self.state_at(timezone.now())


class ExternalIdentity(models.Model):
    """Who somebody is to the lab's OpenID provider: its issuer and its name for them, which never change hands."""

    issuer = models.CharField(max_length=300)
    subject = models.CharField(max_length=255)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="one_account_an_identity")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class SignInFailure(models.Model):
    """One wrong password. Too many of them close the door for a while; rows are removed once they no longer count."""

    username = models.CharField(max_length=150, help_text="as typed, in lower case")
    address = models.GenericIPAddressField(null=True)
    browser = models.CharField(max_length=32, blank=True, help_text="one that this person has signed in with before")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [models.Index(fields=["username", "at"]), models.Index(fields=["address", "at"])]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"
