"""Strength of passwords, by Django's validators and one of our own (`AUTH_PASSWORD_VALIDATORS`)."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from sessions_app.store.errors import BadInput

MIN_DIFFERENT = 5


def require_strong_password(password: str, user: Any = None) -> None:
    """Check a password by the validators of the settings. `user`: whose it is; None for the owner.

    Raises:
        BadInput: one of them refuses it.
    """
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise BadInput("The password is too weak.", hint=" ".join(error.messages)) from error


class VariedPasswordValidator:
    """Refuses passwords of few different characters, such as spaces or the user's own name again and again."""

    def validate(self, password: str, user: Any = None) -> None:
        """Check a password.

        Raises:
            ValidationError: it has fewer than `MIN_DIFFERENT` different characters beside the name of its user.
        """
        own_part = password.casefold()
        if user is not None:
            own_part = own_part.replace(user.get_username().casefold(), "")
        if len(set(own_part)) < MIN_DIFFERENT:
            raise ValidationError(self.get_help_text(), code="password_not_varied")

    def get_help_text(self) -> str:
        """Return the rule."""
        return f"Your password must contain {MIN_DIFFERENT} different characters beside your name."
