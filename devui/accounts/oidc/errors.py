"""Errors of single sign-on."""

from __future__ import annotations

from sessions_app.store.errors import DevUIError

HINT = "Try again in a moment. If that does not help, an admin of this server finds more in its log."


class ProviderFault(DevUIError):
    """The OpenID Connect provider does not answer, or its answer is not valid."""

    status = 502
    code = "provider_fault"

    def __init__(self, message: str, *, hint: str = HINT) -> None:
        super().__init__(message, hint=hint)


class SignInRefused(DevUIError):
    """The provider or DevUI does not let this person in."""

    status = 403
    code = "sign_in_refused"
