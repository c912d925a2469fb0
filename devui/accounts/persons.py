"""The person who sends a request.

Nothing is cached: a login that has ended, a disabled user or another role applies to the next request everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.conf import settings
from django.contrib.auth.models import User

from devui.accounts import logins, owner, personal_tokens
from devui.accounts.models import Membership
from devui.web.login.unauthenticated import refuses_without_owner
from sessions_app.roles import Role


@dataclass(frozen=True, slots=True)
class Person:
    """The user that sends a request, or without DEVUI_USERS whoever may send it.

    Attributes:
        name: name of the user; empty without DEVUI_USERS.
        user_pk: key of the user; None for the owner, and where nobody needs a login.
        roles: roles by app; the empty app is all of them.
        max_role: the highest role that the token of the request allows.
        token: name of the token; empty for a browser.
        token_pk: key of the token; None for a browser.
        unrecorded_token_pk: key of the token if this use of it is to be recorded.
    """

    name: str
    user_pk: int | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    max_role: Role = Role.ADMIN
    token: str = ""
    token_pk: int | None = None
    unrecorded_token_pk: int | None = None

    @property
    def has_app_roles(self) -> bool:
        """Tell whether the role differs between apps."""
        return len(self.roles) > 1

    def role_in(self, app: str = "") -> Role:
        """Return the role in an app, at most that of the token; by default, the one in every app."""
        return min(self.max_role, self.user_role_in(app))

    def user_role_in(self, app: str = "") -> Role:
        """Return the role of the user in an app, whatever the token allows."""
        return max(self.roles.get("", Role.READER), self.roles.get(app, Role.READER))


ANYBODY = Person("", roles={"": Role.ADMIN})
"""The sender of every request where nobody needs a login."""


def find_person(cookies: Mapping[str, str], authorization: str, proxy_user: str = "") -> Person | None:
    """Return the person that a request's bearer token, trusted proxy or login cookie identifies.

    The first of these that the request has decides; None if that one is not valid. Without users and owner: `ANYBODY`,
    or None on a server that listens on the network.

    Args:
        proxy_user: name of the user that a trusted proxy has signed in.
    """
    if not settings.DEVUI_USERS and not owner.exists():
        return None if refuses_without_owner() else ANYBODY
    token = _bearer_token(authorization)
    if token is not None:
        return _find_by_token(token)
    if proxy_user:
        user = User.objects.filter(username=proxy_user).first()
        return _make_person(user) if user and owner.can_sign_in(user) else None
    login = logins.find_login(cookies)
    return _make_person(login.user) if login else None


def _bearer_token(authorization: str) -> str | None:
    """Return the token in an Authorization header; None if it has none."""
    scheme, space, token = authorization.partition(" ")
    return token.strip() if space and scheme.lower() == "bearer" else None


def _find_by_token(text: str) -> Person | None:
    token = personal_tokens.find_token(text)
    if token is None or not (settings.DEVUI_USERS or owner.can_sign_in(token.user)):
        return None
    seconds_unused = time.time() - (token.last_used_at or 0.0)
    return replace(
        _make_person(token.user),
        max_role=Role(token.role),
        token=token.name,
        token_pk=token.pk,
        unrecorded_token_pk=token.pk if seconds_unused >= personal_tokens.RECORD_USE_S else None,
    )


def _make_person(user: User) -> Person:
    if user.username == owner.OWNER:
        return Person(user.username if settings.DEVUI_USERS else "", roles={"": Role.ADMIN})
    memberships = Membership.objects.filter(user=user).values_list("app", "role")
    return Person(user.username, user.pk, {app: Role(role) for app, role in memberships})
