"""Tokens of users, for programs. Only the SHA-256 of a token is stored; deleting the row revokes it everywhere."""

from __future__ import annotations

import secrets
import time

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from devui.accounts.models import Token
from devui.web.login.digests import digest
from sessions_app.roles import Role
from sessions_app.store.errors import AlreadyExists, NotFound
from sessions_app.store.events.call_usage import DAY_S

TOKEN_PREFIX = "devui_"  # noqa: S105 - how tokens begin, so that scanners of secrets can know one

RECORD_USE_S = 60.0
"""Seconds after which the use of a token is recorded again."""


def create_token(
    user: User, name: str, role: Role, days: int | None, creator_pk: int | None = None
) -> tuple[str, Token]:
    """Store a new token of a user. Return its secret and its row.

    Args:
        days: days until it expires; None: never.
        creator_pk: key of the token that creates this one, if one does. This one expires and is revoked with it.

    Raises:
        NotFound: the token that creates this one was revoked meanwhile.
        AlreadyExists: the user has a token of this name.
    """
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    now = time.time()
    creator = None if creator_pk is None else _require_token(user, creator_pk)
    limits = [creator.expires_at if creator else None, None if days is None else now + days * DAY_S]
    expires_at = min((limit for limit in limits if limit is not None), default=None)
    try:
        with transaction.atomic():
            token = Token.objects.create(
                user=user,
                name=name,
                digest=digest(secret),
                role=role,
                created_at=now,
                expires_at=expires_at,
                creator=creator,
            )
    except IntegrityError as error:
        raise AlreadyExists(
            f"{user.username} has a token {name!r} already.",
            hint="Choose another name, or revoke that token first.",
        ) from error
    return secret, token


def find_token(secret: str) -> Token | None:
    """Return the valid token of an active user with this secret; None if there is none."""
    token = Token.objects.select_related("user").filter(digest=digest(secret), user__is_active=True).first()
    return None if token is None or token.is_expired else token


def list_tokens(user: User) -> list[Token]:
    """Return the tokens of a user, the newest first."""
    return list(Token.objects.filter(user=user).order_by("-pk"))


def record_use(pk: int) -> None:
    """Store that a token was used now."""
    Token.objects.filter(pk=pk).update(last_used_at=time.time())


def find_token_by_name(user: User, name: str) -> Token:
    """Return a token of a user.

    Raises:
        NotFound: the user has no token of this name.
    """
    token = Token.objects.filter(user=user, name=name).first()
    if token is None:
        names = ", ".join(token.name for token in list_tokens(user)) or "none"
        raise NotFound(f"{user.username} has no token {name!r}.", hint=f"Tokens: {names}.")
    return token


def revoke_token(user: User, pk: int) -> str:
    """Revoke a token of a user with all that it has created, and return its name.

    Raises:
        NotFound: the user has no such token.
    """
    token = _require_token(user, pk)
    token.delete()
    return token.name


def _require_token(user: User, pk: int) -> Token:
    token = Token.objects.filter(user=user, pk=pk).first()
    if token is None:
        raise NotFound(
            f"You have no token {pk}.", hint="It may have been revoked. /account/ lists your tokens."
        )
    return token
