"""The login, stored in a file of the data folder that only its owner may read. Without the file DevUI needs no login.

The password is stored as Django's hash, the token as its SHA-256: it has 256 random bits, so a slow hash would slow
down every request without a gain. `key` signs the cookies; a new password brings a new key, which ends all logins.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.utils.crypto import constant_time_compare

from devui.web.login.digests import digest
from devui.web.login.password_strength import require_strong_password
from sessions_app.store.errors import BadInput, DevUIError

FILE = "login.json"
ENDED_FOLDER = "ended-logins"
"""Contains an empty file per ended login, named by its id: creating the file ends the login for every process."""

MIN_PASSWORD = 10
"""Least characters of a password."""

TOKEN_PREFIX = "devui_"  # noqa: S105 - how tokens begin, so that scanners of secrets can know one
GENERATED_BYTES = 15


class LoginUnreadable(DevUIError):
    """A login is set up but it, or the list of ended logins, cannot be read; all requests are refused."""

    status = 503
    code = "login_unreadable"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The stored password, key and token of the login with one password. The token is empty if programs have none."""

    password: str
    key: str
    token: str = ""

    @property
    def cookie(self) -> str:
        """Name of the cookie: servers on other ports of this host share its cookies, but have logins of their own."""
        return f"devui-login-{digest(self.key)[:12]}"

    def has_token(self, token: str) -> bool:
        """Compare the token of programs, in constant time."""
        return bool(self.token) and constant_time_compare(digest(token), self.token)


def read_credentials() -> Credentials | None:
    """Return the current login; None if none is set up."""
    try:
        return _parse_credentials(login_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoginUnreadable(
            f"The login in {str(login_file())!r} cannot be read.",
            hint="On the server's machine, set it up again: `python manage.py login`.",
        ) from error


def set_password(password: str) -> None:
    """Store a password, which ends the logins of the previous one. The token of programs stays valid.

    Raises:
        BadInput: the password is too weak.
    """
    require_strong_password(password)
    try:
        login = read_credentials()
    except LoginUnreadable:
        login = None
    token = login.token if login else ""
    _write_private_file(FILE, asdict(Credentials(make_password(password), secrets.token_urlsafe(32), token)))


def generate_password() -> str:
    """Return a random password."""
    return secrets.token_urlsafe(GENERATED_BYTES)


def replace_token() -> str:
    """Return a new token for programs, which replaces the previous one. Only its hash is stored.

    Raises:
        BadInput: no login is set up.
        LoginUnreadable: the login cannot be read.
    """
    login = read_credentials()
    if login is None:
        raise BadInput("There is no login yet.", hint="Set its password first: `python manage.py login`.")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    _write_private_file(FILE, asdict(replace(login, token=digest(token))))
    return token


def remove_login() -> bool:
    """Remove the login. Return whether there was one."""
    existed = login_file().exists()
    login_file().unlink(missing_ok=True)
    shutil.rmtree(_data_folder() / ENDED_FOLDER, ignore_errors=True)
    return existed


def login_file() -> Path:
    """Return the path of the login's file."""
    return _data_folder() / FILE


def end_login(number: str, remembered_s: float) -> None:
    """End a login by its id for every process, and forget those that ended `remembered_s` seconds ago."""
    folder = _data_folder() / ENDED_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    oldest = time.time() - remembered_s
    for mark in folder.iterdir():
        with suppress(FileNotFoundError):  # another process removes the same files
            if mark.stat().st_mtime < oldest:
                mark.unlink()
    (folder / number).touch(mode=0o600)


def has_login_ended(number: str) -> bool:
    """Tell whether any process has ended the login of this id."""
    folder = _data_folder() / ENDED_FOLDER
    try:
        os.stat(folder / number)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LoginUnreadable(
            f"The ended logins in {str(folder)!r} cannot be read.",
            hint="On the server's machine, remove that folder and set a new password: `python manage.py login`.",
        ) from error
    return True


def _data_folder() -> Path:
    return Path(getattr(settings, "DATA_DIR", ".devui"))


def _parse_credentials(text: str) -> Credentials:
    fields = json.loads(text)
    login = Credentials(**{name: str(fields[name]) for name in ("password", "key", "token")})
    if not login.password or not login.key:
        raise ValueError("password or key is missing")
    return login


def _write_private_file(name: str, content: dict[str, Any]) -> None:
    """Write a file of the data folder atomically, with mode 0600."""
    folder = _data_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, folder / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
