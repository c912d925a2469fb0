"""Authentication of browsers by a signed cookie, and of programs by the token.

The cookie holds the id of a login, signed with its time. A login ends after `AGE_S`, with the password, or by signing
out; ids of ended logins are stored until they would have expired, so that copies of the cookie are invalid, too.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from django.core.signing import BadSignature, TimestampSigner

from devui.web.login import credentials_file
from devui.web.login.credentials_file import Login

AGE_S = 14 * 24 * 3600
"""Seconds after which a browser has to sign in again."""

SALT = "devui.web.login.2"  # change it if records of ended logins are lost
BEARER = "bearer "


def is_authenticated(login: Login, cookies: Mapping[str, str], authorization: str) -> bool:
    """Tell whether a request carries the token or a valid cookie.

    Args:
        cookies: the cookies of the request.
        authorization: its Authorization header; empty if missing.
    """
    if authorization[: len(BEARER)].lower() == BEARER and login.has_token(
        authorization[len(BEARER) :].strip()
    ):
        return True
    return bool(login_id(login, cookies))


def login_id(login: Login, cookies: Mapping[str, str]) -> str:
    """Return the id of the login in a browser's cookie; empty if it is not valid."""
    try:
        number = _signer(login).unsign(cookies.get(login.cookie, ""), max_age=AGE_S)
    except (BadSignature, ValueError):
        return ""
    return "" if credentials_file.has_login_ended(number) else number


def new_cookie(login: Login) -> str:
    """Return the cookie value for a new login."""
    return _signer(login).sign(secrets.token_urlsafe(16))


def _signer(login: Login) -> TimestampSigner:
    return TimestampSigner(key=login.key, salt=SALT, fallback_keys=[])
