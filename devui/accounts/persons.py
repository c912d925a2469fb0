"""The person who sends a request.

Nothing is cached: a login that has ended, a disabled user or another role applies to the next request everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from django.contrib.auth.models import User

from devui.accounts import logins, personal_tokens
from devui.accounts.models import Membership
from devui.web.login import credentials_file
from devui.web.login.authentication import bearer_token
from sessions_app.roles import Role

LOGIN_FILE_SENDER = "token of login.json"
"""Name, in the audit log, of the sender of a request with the token of the one-password login."""


@dataclass(frozen=True, slots=True)
class Person:
    """The user, or the token of the one-password login, that sends a request.

    Attributes:
        user_pk: key of the user; None for the token of the one-password login.
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


def find_person(cookies: Mapping[str, str], authorization: str, proxy_user: str = "") -> Person | None:
    """Return the person that a request's bearer token, trusted proxy or login cookie identifies.

    The first of these that the request has decides; None if that one is not valid.

    Args:
        proxy_user: name of the user that a trusted proxy has signed in.
    """
    token = bearer_token(authorization)
    if token is not None:
        return _find_by_token(token)
    if proxy_user:
        user = User.objects.filter(username=proxy_user, is_active=True).first()
        return _make_person(user) if user else None
    login = logins.find_login(cookies)
    return _make_person(login.user) if login else None


def _find_by_token(text: str) -> Person | None:
    if token := personal_tokens.find_token(text):
        seconds_unused = time.time() - (token.last_used_at or 0.0)
        return replace(
            _make_person(token.user),
            max_role=Role(token.role),
            token=token.name,
            token_pk=token.pk,
            unrecorded_token_pk=token.pk if seconds_unused >= personal_tokens.RECORD_USE_S else None,
        )
    login = credentials_file.read_credentials()
    if login is not None and login.has_token(text):
        return Person(LOGIN_FILE_SENDER, roles={"": Role.ADMIN})
    return None


def _make_person(user: User) -> Person:
    memberships = Membership.objects.filter(user=user).values_list("app", "role")
    return Person(user.username, user.pk, {app: Role(role) for app, role in memberships})
