"""Where a login is kept: a file of the data folder that only its owner may read. Without one DevUI asks nobody.

The password is there as Django's hash of it, the token as its SHA-256: it has 256 bits of chance, so a slow hash
would make every request slower and nobody safer. `key` signs the cookies; a new password brings a new key, which
ends every login there was.
"""

from __future__ import annotations

import hashlib
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

from sessions_app.errors import BadInput, DevUIError

FILE = "login.json"
ENDED_FOLDER = "ended-logins"
"""Has an empty file for each login that was ended, by its number: one step ends it for every process."""

MTIME_SETTLED_S = 1.0
"""Age from which the time of a file tells its next change; clocks of file systems tick in milliseconds."""

MIN_PASSWORD = 10
"""Characters of a password."""

TOKEN_PREFIX = "devui_"  # noqa: S105 - how tokens begin, so that scanners of secrets can know one
GENERATED_BYTES = 15


class LoginUnreadable(DevUIError):
    """There is a login, and it cannot be read: nobody is let in."""

    status = 503
    code = "login_unreadable"


@dataclass(frozen=True, slots=True)
class Login:
    """What is kept. `token` is empty as long as programs have none."""

    password: str
    key: str
    token: str = ""

    @property
    def cookie(self) -> str:
        """The cookie's name: servers on other ports of this host share its cookies, and have logins of their own."""
        return f"devui-login-{_digest(self.key)[:12]}"

    def has_token(self, token: str) -> bool:
        """Tell whether this is the token of programs, in a time that does not tell how much of it is right."""
        return bool(self.token) and constant_time_compare(_digest(token), self.token)


def read_login() -> Login | None:
    """Return the login as it is now, None when there is none. The file is read again once it has changed.

    Raises:
        LoginUnreadable: there is one, which cannot be read.
    """
    global _cached_login
    try:
        now = os.stat(login_file())
        stamp = (login_file(), now.st_mtime_ns, now.st_ino, now.st_size)
        if _cached_login is not None and _cached_login[0] == stamp:
            return _cached_login[1]
        login = _parse_login(login_file().read_text(encoding="utf-8"))
        _cached_login = (stamp, login) if abs(time.time() - now.st_mtime) > MTIME_SETTLED_S else None
        return login
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoginUnreadable(
            f"The login in {str(login_file())!r} cannot be read.",
            hint="On the server's machine, set it up anew: `python manage.py login`.",
        ) from error


_cached_login: tuple[tuple[Any, ...], Login] | None = None
"""The login that was read last, and how its file was then."""


def set_password(password: str) -> None:
    """Keep a password, in place of any other, whose logins end. The token of programs stays.

    Raises:
        BadInput: it is too short.
    """
    if len(password) < MIN_PASSWORD:
        raise BadInput(
            f"The password has {len(password)} characters.", hint=f"It needs {MIN_PASSWORD} or more."
        )
    try:
        login = read_login()
    except LoginUnreadable:
        login = None
    token = login.token if login else ""
    _write(FILE, asdict(Login(make_password(password), secrets.token_urlsafe(32), token)))


def generate_password() -> str:
    """Return a password that nobody guesses."""
    return secrets.token_urlsafe(GENERATED_BYTES)


def replace_token() -> str:
    """Return a new token for programs, which takes the place of any other. It is shown now and never again.

    Raises:
        BadInput: there is no login yet.
        LoginUnreadable: what there is cannot be read.
    """
    login = read_login()
    if login is None:
        raise BadInput("There is no login yet.", hint="Set its password first: `python manage.py login`.")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    _write(FILE, asdict(replace(login, token=_digest(token))))
    return token


def remove_login() -> bool:
    """Take the login away. Return whether there was one."""
    existed = login_file().exists()
    login_file().unlink(missing_ok=True)
    shutil.rmtree(_data_folder() / ENDED_FOLDER, ignore_errors=True)
    return existed


def login_file() -> Path:
    """Return where the login is kept."""
    return _data_folder() / FILE


def end_login(number: str, remembered_s: float) -> None:
    """Remember that the login of this number has ended, and forget those that ended `remembered_s` seconds ago."""
    folder = _data_folder() / ENDED_FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    oldest = time.time() - remembered_s
    for mark in folder.iterdir():
        with suppress(FileNotFoundError):  # another process forgets the same ones
            if mark.stat().st_mtime < oldest:
                mark.unlink()
    (folder / number).touch(mode=0o600)


def has_login_ended(number: str) -> bool:
    """Tell whether the login of this number was ended, by any process.

    Raises:
        LoginUnreadable: the folder that remembers it cannot be looked into.
    """
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


def _parse_login(text: str) -> Login:
    fields = json.loads(text)
    login = Login(**{name: str(fields[name]) for name in ("password", "key", "token")})
    if not login.password or not login.key:
        raise ValueError("half a login")
    return login


def _write(name: str, content: dict[str, Any]) -> None:
    """Write a file of the data folder, mode 0600, in one step: who reads it sees the old one or the new one."""
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
