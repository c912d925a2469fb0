"""Tokens of users, for programs. Only the SHA-256 of a token is stored; deleting the row revokes it everywhere."""

from __future__ import annotations

import secrets
import time

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from devui.accounts.models import Token
from devui.accounts.roles import Role
from devui.web.login.credentials_file import TOKEN_PREFIX
from devui.web.login.digests import digest
from sessions_app.errors import AlreadyExists, NotFound
from sessions_app.prices.costs import DAY_S

TOUCH_S = 60.0
"""Seconds after which a use is recorded again."""


def create_token(
    user: User, name: str, role: Role, days: int | None, creator_expires_at: float | None = None
) -> tuple[str, Token]:
    """Store a new token of a user. Return its secret and its row.

    Args:
        days: days until it expires; None: never.
        creator_expires_at: when the token that creates this one expires, if one does. This one does not outlive it.

    Raises:
        AlreadyExists: the user has a token of this name.
    """
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    now = time.time()
    limits = [creator_expires_at, None if days is None else now + days * DAY_S]
    expires_at = min((limit for limit in limits if limit is not None), default=None)
    try:
        with transaction.atomic():
            token = Token.objects.create(
                user=user, name=name, digest=digest(text), role=role, created_at=now, expires_at=expires_at
            )
    except IntegrityError as error:
        raise AlreadyExists(
            f"{user.username} has a token {name!r} already.",
            hint="Choose another name, or revoke that token first.",
        ) from error
    return text, token


def find_token(text: str) -> Token | None:
    """Return the valid token of an active user; None if there is none."""
    token = Token.objects.select_related("user").filter(digest=digest(text), user__is_active=True).first()
    return None if token is None or token.is_expired else token


def tokens_of(user: User) -> list[Token]:
    """Return the tokens of a user, the newest first."""
    return list(Token.objects.filter(user=user).order_by("-pk"))


def record_use(pk: int) -> None:
    """Store that a token was used now."""
    Token.objects.filter(pk=pk).update(last_used_at=time.time())


def find_by_name(user: User, name: str) -> Token:
    """Return a token of a user.

    Raises:
        NotFound: the user has no token of this name.
    """
    token = Token.objects.filter(user=user, name=name).first()
    if token is None:
        names = ", ".join(token.name for token in tokens_of(user)) or "none"
        raise NotFound(f"{user.username} has no token {name!r}.", hint=f"Tokens: {names}.")
    return token


def revoke_token(user: User, pk: int) -> str:
    """Revoke a token of a user, and return its name.

    Raises:
        NotFound: the user has no such token.
    """
    token = Token.objects.filter(user=user, pk=pk).first()
    if token is None:
        raise NotFound("You have no such token.", hint="It was revoked already.")
    token.delete()
    return token.name
