"""The signed cookie of an OAuth sign-in that an agent asks for: only the browser that began a sign-in can end it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Self

from django.core import signing

SALT = "devui.sign-in"
TIMEOUT_S = 3600
"""Seconds that a sign-in may take."""


@dataclass(frozen=True, slots=True)
class PendingSignIn:
    """A sign-in that a browser began.

    Attributes:
        session: key of the session.
        call: id of the call that asks for the credential.
        redirect: the address to which the provider redirects.
    """

    session: int
    call: str
    redirect: str

    @classmethod
    def read(cls, cookies: Mapping[str, str], state: str) -> Self | None:
        """Return the sign-in with the state that a provider returns; None if this browser began none in time."""
        try:
            return cls(**signing.loads(cookies.get(cookie_name(state), ""), salt=SALT, max_age=TIMEOUT_S))
        except signing.BadSignature:
            return None

    def as_cookie(self) -> str:
        """Return the value of the cookie."""
        return signing.dumps(asdict(self), salt=SALT)


def cookie_name(state: str) -> str:
    """Return the name of the cookie of a sign-in with this state."""
    return f"devui-sign-in-{sha256(state.encode(errors='replace')).hexdigest()[:16]}"
