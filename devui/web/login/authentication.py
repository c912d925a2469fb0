"""Who is let in: a browser with a cookie that a login gave it, a program with the token.

The cookie holds a number of the login, signed with the time; nothing can be read out of it or made up. A login ends
after `AGE_S`, with the password, or when its browser logs out: then its number is remembered until it would have
ended by itself, so that a copy of the cookie is worth nothing either.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from django.core.signing import BadSignature, TimestampSigner

from devui.web.login import credentials_file
from devui.web.login.credentials_file import Login

AGE_S = 14 * 24 * 3600
"""Seconds after which a browser is asked for the password again."""

SALT = "devui.web.login.2"  # changes when logins that have ended would not be known any more
BEARER = "bearer "


def is_authenticated(login: Login, cookies: Mapping[str, str], authorization: str) -> bool:
    """Tell whether a request has what it takes.

    Args:
        cookies: those that came with it.
        authorization: its header of that name; empty: it has none.

    Raises:
        LoginUnreadable: it is not known which logins were ended.
    """
    if authorization[: len(BEARER)].lower() == BEARER and login.has_token(
        authorization[len(BEARER) :].strip()
    ):
        return True
    return bool(login_id(login, cookies))


def login_id(login: Login, cookies: Mapping[str, str]) -> str:
    """Return the number of the login that a browser's cookie tells; empty: of none that still holds.

    Raises:
        LoginUnreadable: it is not known which logins were ended.
    """
    try:
        number = _signer(login).unsign(cookies.get(login.cookie, ""), max_age=AGE_S)
    except (BadSignature, ValueError):
        return ""
    return "" if credentials_file.has_login_ended(number) else number


def new_cookie(login: Login) -> str:
    """Return the value of the cookie of a browser that has just given the password."""
    return _signer(login).sign(secrets.token_urlsafe(16))


def revoke_login(number: str) -> None:
    """End a login for good, by its number, in every process that shares the data folder."""
    credentials_file.end_login(number, AGE_S)


def _signer(login: Login) -> TimestampSigner:
    return TimestampSigner(key=login.key, salt=SALT, fallback_keys=[])
