"""Users of people whom an OpenID Connect provider has signed in."""

from __future__ import annotations

import shlex

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from devui.accounts import users
from devui.accounts.models import Membership, OidcAccount
from devui.accounts.oidc.claims import OidcIdentity
from devui.accounts.oidc.errors import SignInRefused
from devui.config.single_sign_on import OidcProvider
from sessions_app.roles import Role
from sessions_app.store.errors import AlreadyExists


def sign_in_identity(provider: OidcProvider, identity: OidcIdentity) -> User:
    """Return the active user of a person. If roles are set by group, set the user's role.

    Raises:
        SignInRefused: the person has no user or no role, or the user is disabled.
        BadInput: the name is not acceptable, or the role of the only admin would change.
        AlreadyExists: a user has the name with other capital letters.
    """
    try:
        return _sign_in(provider, identity)
    except (IntegrityError, AlreadyExists, SignInRefused):
        return _sign_in(provider, identity)  # a simultaneous request may have created the same user


@transaction.atomic
def _sign_in(provider: OidcProvider, identity: OidcIdentity) -> User:
    role = identity.role or (Role.of(provider.default_role) if provider.default_role else None)
    if provider.group_roles and role is None:
        raise SignInRefused(
            f"{identity.name} is in no group that may use DevUI.",
            hint="Ask an admin which groups may: DEVUI_OIDC_GROUP_ROLES.",
        )
    account = (
        OidcAccount.objects.select_related("user")
        .filter(issuer=identity.issuer, subject=identity.subject)
        .first()
    )
    user = account.user if account else _link_user(identity, role)
    if not user.is_active:
        raise SignInRefused(f"The user {user.username} is disabled.", hint="Ask an admin to enable it.")
    if provider.group_roles and role is not None and not _has_role(user, role):
        users.set_role(user, role)
    return user


def _link_user(identity: OidcIdentity, new_role: Role | None) -> User:
    """Link the person's account to the user of the same name, which is created if new people have a role."""
    user = users.select_users().filter(username=identity.name).first()
    if user is None and new_role is None:
        raise SignInRefused(
            f"There is no user {identity.name!r}.",
            hint="Ask an admin to create it:"
            f" `python manage.py createuser {shlex.quote(identity.name)} --role reader`.",
        )
    if user is None:
        users.create_user(identity.name, new_role or Role.READER, has_password=False)
        user = users.find_user(identity.name)
    elif user.oidc_accounts.filter(issuer=identity.issuer).exists():
        raise SignInRefused(
            f"The user {identity.name!r} belongs to another account of the provider.",
            hint="If that account was replaced by this one, an admin can end the link:"
            f" `python manage.py changeuser {identity.name} --unlink`.",
        )
    OidcAccount.objects.create(user=user, issuer=identity.issuer, subject=identity.subject)
    return user


def _has_role(user: User, role: Role) -> bool:
    return Membership.objects.filter(user=user, app="", role=role).exists()
