"""The file in which earlier versions kept the login with one password. A store without an owner takes it over.

The file stays until the password or the token is replaced or removed: it is also the login of other stores of this data
folder, and of the earlier version after a rollback.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

from django.conf import settings
from django.contrib.auth.hashers import identify_hasher
from django.contrib.auth.models import User
from django.db import transaction

from devui.accounts import owner
from devui.accounts.models import Token
from sessions_app.roles import Role
from sessions_app.store.errors import DevUIError

FILE = "login.json"
ENDED_FOLDER = "ended-logins"
TOKEN_DIGEST = re.compile(r"([0-9a-f]{64})?")
"""SHA-256 of a token; empty: there is none."""


class LoginUnreadable(DevUIError):
    """The file cannot be read; a server must not start without the login that it holds."""


def import_file() -> None:
    """Make the login of the file the owner, with the token, unless there is an owner.

    Raises:
        LoginUnreadable: the file cannot be read.
    """
    if owner.exists() or (credentials := _read_file()) is None:
        return
    password, token = credentials
    with transaction.atomic():
        user, is_new = User.objects.get_or_create(username=owner.OWNER, defaults={"password": password})
        if is_new and token:
            Token.objects.create(
                user=user, name=owner.TOKEN, digest=token, role=Role.ADMIN, created_at=time.time()
            )
    owner.hide_store_file()


def remove_file() -> None:
    """Remove the file, and the folder with the ended logins beside it."""
    login_file().unlink(missing_ok=True)
    shutil.rmtree(login_file().parent / ENDED_FOLDER, ignore_errors=True)


def login_file() -> Path:
    """Return the path of the file."""
    return Path(settings.DATA_DIR) / FILE


def _read_file() -> tuple[str, str] | None:
    """Return the hash of the password, which is Django's, and the SHA-256 of the token, if any; None without a file."""
    try:
        fields = json.loads(login_file().read_text(encoding="utf-8"))
        password, token = fields["password"], fields["token"]
        identify_hasher(password).safe_summary(password)
        if not (isinstance(token, str) and TOKEN_DIGEST.fullmatch(token)):
            raise ValueError("the token is no SHA-256")
        return password, token
    except FileNotFoundError:
        return None
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        RecursionError,
    ) as error:
        raise LoginUnreadable(
            f"The login in {str(login_file())!r} cannot be read.",
            hint="On the server's machine, set it up again: `python manage.py login`.",
        ) from error
