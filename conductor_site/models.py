"""What the doors of the site keep: API tokens, and sign-ins that failed."""

from django.db import models
from django.utils import timezone
from knox.models import AbstractAuthToken


class TokenScope(models.TextChoices):
    """What a token may be used for; never more than its owner may do."""

    READ = "read", "reading"
    ACT = "act", "reading and commands"


class ApiToken(AbstractAuthToken):
    """A person's token for the API, kept as a hash. The first letters of it (`token_key`) tell tokens apart."""

    name = models.CharField(max_length=80, help_text="what it is for, in its owner's words")
    scope = models.CharField(max_length=4, choices=TokenScope, default=TokenScope.ACT)

    class Meta:
        ordering = ["-created"]

    def __str__(self) -> str:
        return f"{self.name} ({self.user})"


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
