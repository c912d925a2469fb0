"""Authentication of browsers by a signed cookie, and of programs by the token.

The cookie holds the id of a login, signed with its time. A login ends after `AGE_S`, with the password, or by signing
out; ids of ended logins are stored until they would have expired, so that copies of the cookie are invalid, too.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from django.core.signing import BadSignature, TimestampSigner

from devui.web.login import credentials_file
from devui.web.login.credentials_file import Credentials

AGE_S = 14 * 24 * 3600
"""Seconds after which a browser has to sign in again."""

SALT = "devui.web.login.2"  # change it if records of ended logins are lost


def bearer_token(authorization: str) -> str | None:
    """Return the token in an Authorization header; None if it has none."""
    scheme, space, token = authorization.partition(" ")
    return token.strip() if space and scheme.lower() == "bearer" else None


def is_authenticated(login: Credentials, cookies: Mapping[str, str], authorization: str) -> bool:
    """Tell whether a request carries the token or a valid cookie.

    Args:
        cookies: the cookies of the request.
        authorization: its Authorization header; empty if missing.
    """
    token = bearer_token(authorization)
    return (token is not None and login.has_token(token)) or bool(login_id(login, cookies))


def login_id(login: Credentials, cookies: Mapping[str, str]) -> str:
    """Return the id of the login in a browser's cookie; empty if it is not valid."""
    try:
        number = _make_signer(login).unsign(cookies.get(login.cookie, ""), max_age=AGE_S)
    except (BadSignature, ValueError):
        return ""
    return "" if credentials_file.has_login_ended(number) else number


def new_cookie(login: Credentials) -> str:
    """Return the cookie value for a new login."""
    return _make_signer(login).sign(secrets.token_urlsafe(16))


def _make_signer(login: Credentials) -> TimestampSigner:
    return TimestampSigner(key=login.key, salt=SALT, fallback_keys=[])
