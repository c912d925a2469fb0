"""Logins of browsers: their rows and cookies."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from devui.accounts import owner
from devui.accounts.models import Login
from devui.web.login.digests import digest

AGE_S = 14 * 24 * 3600
"""Seconds after which a browser has to sign in again."""


def cookie_name() -> str:
    """Return the name of the cookie. Servers with other stores on other ports of the host share its cookies."""
    store = str(settings.DATABASES["default"]["NAME"])
    return f"devui-user-{digest(store)[:12]}"


def find_login(cookies: Mapping[str, str]) -> Login | None:
    """Return the login of a browser's cookie; None if it is not valid."""
    value = cookies.get(cookie_name(), "")
    if not value:
        return None
    login = Login.objects.select_related("user").filter(digest=digest(value)).first()
    if login is None or login.expires_at < time.time() or not owner.can_sign_in(login.user):
        return None
    return login if login.password_mark == _password_mark(login.user) else None


def check_password(name: str, password: str) -> User | None:
    """Return the user with this name and password, by Django's authentication; None if nobody can sign in with them.

    For a thread of its own.
    """
    try:
        user = authenticate(username=name, password=password)
        return user if isinstance(user, User) and owner.can_sign_in(user) else None
    finally:
        connection.close()


def start_login(user: User) -> str:
    """Store a new login of a user, and return the value of its cookie."""
    now = time.time()
    Login.objects.filter(user=user, expires_at__lt=now).delete()
    value = secrets.token_urlsafe(32)
    Login.objects.create(
        user=user, digest=digest(value), password_mark=_password_mark(user), expires_at=now + AGE_S
    )
    User.objects.filter(pk=user.pk).update(last_login=datetime.fromtimestamp(now, UTC))
    return value


def end_login(cookies: Mapping[str, str]) -> None:
    """End the login of a browser's cookie, also for copies of the cookie."""
    Login.objects.filter(digest=digest(cookies.get(cookie_name(), ""))).delete()


def set_cookie(request: HttpRequest, response: HttpResponse, value: str) -> None:
    """Set the cookie of a login."""
    response.set_cookie(
        cookie_name(),
        value,
        max_age=AGE_S,
        path=reverse("home"),
        secure=request.is_secure() or request.headers.get("Origin", "").startswith("https:"),
        httponly=True,
        samesite="Strict",
    )


def delete_cookie(response: HttpResponse) -> None:
    """Delete the cookie of a login."""
    response.delete_cookie(cookie_name(), path=reverse("home"), samesite="Strict")


def _password_mark(user: User) -> str:
    return digest(user.password)
