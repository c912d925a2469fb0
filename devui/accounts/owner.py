"""The owner: the only user of a server without DEVUI_USERS. Whoever knows the password may do everything.

A server without an owner needs no login. With DEVUI_USERS=1 nobody can sign in as the owner, but the owner's token
stays valid, so that programs go on.
"""

from __future__ import annotations

from contextlib import suppress

from django.conf import settings
from django.contrib.auth.models import User
from django.db import Error, connection, transaction

from devui.accounts import personal_tokens, users
from devui.accounts.models import Token
from devui.accounts.password_strength import require_strong_password
from sessions_app.roles import Role
from sessions_app.store.database import db_errors
from sessions_app.store.database.schema import sqlite_file
from sessions_app.store.errors import BadInput, NotFound

OWNER = users.OWNER
TOKEN = "programs"  # noqa: S105 - the name of a token
"""Name of the owner's token."""

PRIVATE_BITS = 0o700

_existed: bool | None = None
"""True if the store had an owner user when this process last read it; None before the first read."""

_table_exists = False
"""True once this process has found the table of Django's users in the store; it is not looked for again."""


def exists() -> bool:
    """Tell whether there is an owner. The last answer applies while the store does not answer."""
    global _existed
    try:
        if not _has_users_table():
            return False
        _existed = User.objects.filter(username=OWNER).exists()
    except Error as error:
        connection.close()
        if _existed is None or db_errors.translate(error) is None:
            raise
    return _existed


def _has_users_table() -> bool:
    """Tell whether the store can have an owner: the database of a project with a user model of its own cannot."""
    global _table_exists
    _table_exists = _table_exists or User._meta.db_table in connection.introspection.table_names()
    return _table_exists


def was_missing() -> bool:
    """Tell whether there was no owner when this process last asked."""
    return _existed is False


def require_owner() -> None:
    """Check that there is an owner, who can sign in.

    Raises:
        NotFound: there is none.
    """
    if not exists():
        raise NotFound("No login is set up.", hint="To require one, run `python manage.py login`.")


def can_sign_in(user: User) -> bool:
    """Tell whether this server accepts a user: with DEVUI_USERS=1 everybody but the owner, else only the owner."""
    return user.is_active and (user.username == OWNER) != settings.DEVUI_USERS


@transaction.atomic
def set_password(password: str) -> None:
    """Set the password of the owner, which ends the logins with the previous one. The token stays valid.

    Raises:
        BadInput: the password is too weak, or the database belongs to a project with a user model of its own.
    """
    require_strong_password(password)
    if not _has_users_table():
        raise BadInput(
            "This database belongs to a project with a user model of its own, which keeps no login of DevUI.",
            hint="Let the project sign people in and mount DevUI in it: see docs/embedding.md.",
        )
    user, _ = User.objects.get_or_create(username=OWNER)
    user.set_password(password)
    users.save_password(user)
    hide_store_file()


def hide_store_file() -> None:
    """Let no other system user read the file of an SQLite store in the data folder: it has the hash of the password.

    A file elsewhere may belong to a project that runs as another system user.
    """
    file = sqlite_file()
    if file and file.is_relative_to(settings.DATA_DIR):
        for path in (file, *(file.with_name(file.name + ending) for ending in ("-wal", "-shm"))):
            with suppress(OSError):  # it does not exist, or belongs to another user
                path.chmod(path.stat().st_mode & PRIVATE_BITS)


@transaction.atomic
def replace_token() -> str:
    """Return a new token for programs, which replaces the previous one. Only its hash is stored.

    Raises:
        BadInput: there is no owner.
    """
    user = User.objects.filter(username=OWNER).first()
    if user is None:
        raise BadInput("There is no login yet.", hint="Set its password first: `python manage.py login`.")
    Token.objects.filter(user=user).delete()
    secret, _ = personal_tokens.create_token(user, TOKEN, Role.ADMIN, days=None)
    return secret


def remove_owner() -> bool:
    """Remove the owner with all logins and the token. Return whether there was one."""
    _, deleted = User.objects.filter(username=OWNER).delete()
    return bool(deleted)
