"""Signing in."""

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError

from conductor_site.signin import TooManyAttempts, WrongPassword, sign_in


class SignInForm(AuthenticationForm):
    """A name and a password, checked behind the door that closes after too many wrong ones."""

    def clean(self) -> dict[str, Any]:
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if username is not None and password and self.request is not None:
            try:
                self.user_cache = sign_in(request=self.request, username=username, password=password)
            except (WrongPassword, TooManyAttempts) as refusal:
                raise ValidationError(refusal.message, code=refusal.code) from refusal
            self.confirm_login_allowed(self.user_cache)
        return self.cleaned_data
