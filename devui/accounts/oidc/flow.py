"""Sign-ins in progress. A signed cookie holds one until its browser returns from the provider."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import asdict, dataclass, field

from django.core import signing
from django.utils.crypto import constant_time_compare

from devui.accounts.oidc.errors import SignInRefused
from devui.config.single_sign_on import OidcProvider

AGE_S = 10 * 60
"""Seconds that a person has to sign in at the provider."""

SALT = "devui.accounts.oidc"


def _random_text() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """A sign-in in progress.

    Attributes:
        next_path: path to which it redirects at its end.
        state: binds the return of the browser to this flow.
        nonce: binds the ID token to this flow.
        verifier: PKCE's secret, which binds the code of the provider to this flow.
    """

    next_path: str
    state: str = field(default_factory=_random_text)
    nonce: str = field(default_factory=_random_text)
    verifier: str = field(default_factory=_random_text)

    @property
    def challenge(self) -> str:
        """The SHA-256 of the verifier, as the provider gets it."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def sign_flow(provider: OidcProvider, flow: SignInFlow) -> str:
    """Return a flow as the value of a cookie. Every web process with the provider's secret accepts it."""
    return signing.dumps(asdict(flow), key=provider.client_secret, salt=SALT)


def read_flow(provider: OidcProvider, cookie: str, state: str) -> SignInFlow:
    """Return the flow of a cookie.

    Raises:
        SignInRefused: the cookie is missing, forged or too old, or has another state.
    """
    try:
        values = signing.loads(cookie, key=provider.client_secret, salt=SALT, max_age=AGE_S, fallback_keys=[])
    except signing.BadSignature:
        values = None
    if values is None or not constant_time_compare(values["state"], state):
        raise SignInRefused(
            "This sign-in has expired, or was begun in another browser or tab.", hint="Sign in again."
        )
    return SignInFlow(**values)
