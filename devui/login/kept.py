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
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.utils.crypto import constant_time_compare

from sessions_app.errors import BadInput, DevUIError

FILE = "login.json"
LOGGED_OUT_FILE = "logged-out.json"
SHORTEST = 10
"""Characters of a password."""

TOKEN_MARK = "devui_"  # noqa: S105 - how tokens begin, so that scanners of secrets can know one
MADE_UP_BYTES = 15


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

    def has_token(self, given: str) -> bool:
        """Tell whether this is the token of programs, in a time that does not tell how much of it is right."""
        return bool(self.token) and constant_time_compare(_digest(given), self.token)


def current() -> Login | None:
    """Return the login as it is now, None when there is none. The file is read again once it has changed.

    Raises:
        LoginUnreadable: there is one, which cannot be read.
    """
    global _read
    try:
        now = os.stat(file())
        stamp = now.st_mtime_ns, now.st_ino, now.st_size
        if _read is None or _read[0] != (file(), *stamp):
            _read = (file(), *stamp), _parsed(file().read_text(encoding="utf-8"))
        return _read[1]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LoginUnreadable(
            f"The login in {str(file())!r} cannot be read.",
            hint="On the server's machine, set it up anew: `python manage.py login`.",
        ) from error


_read: tuple[tuple[Any, ...], Login] | None = None
"""The login that was read last, and how its file was then."""


def set_password(password: str) -> None:
    """Keep a password, in place of any other, whose logins end. The token of programs stays.

    Raises:
        BadInput: it is too short.
    """
    if len(password) < SHORTEST:
        raise BadInput(f"The password has {len(password)} characters.", hint=f"It needs {SHORTEST} or more.")
    try:
        kept = current()
    except LoginUnreadable:
        kept = None
    token = kept.token if kept else ""
    _write(FILE, asdict(Login(make_password(password), secrets.token_urlsafe(32), token)))


def made_up_password() -> str:
    """Return a password that nobody guesses."""
    return secrets.token_urlsafe(MADE_UP_BYTES)


def new_token() -> str:
    """Return a new token for programs, which takes the place of any other. It is shown now and never again.

    Raises:
        BadInput: there is no login yet.
        LoginUnreadable: what there is cannot be read.
    """
    kept = current()
    if kept is None:
        raise BadInput("There is no login yet.", hint="Set its password first: `python manage.py login`.")
    token = TOKEN_MARK + secrets.token_urlsafe(32)
    _write(FILE, asdict(replace(kept, token=_digest(token))))
    return token


def remove() -> bool:
    """Take the login away. Return whether there was one."""
    existed = file().exists()
    for name in (FILE, LOGGED_OUT_FILE):
        _folder().joinpath(name).unlink(missing_ok=True)
    return existed


def file() -> Path:
    """Return where the login is kept."""
    return _folder() / FILE


def read_logged_out() -> dict[str, float]:
    """Return the logins that were ended one by one, with the time in epoch seconds until which each is remembered.

    Raises:
        LoginUnreadable: the file that keeps them cannot be read.
    """
    try:
        told = json.loads((_folder() / LOGGED_OUT_FILE).read_text(encoding="utf-8"))
        return {str(name): float(until) for name, until in told.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise LoginUnreadable(
            f"The list of ended logins in {str(_folder() / LOGGED_OUT_FILE)!r} cannot be read.",
            hint="On the server's machine, remove it and set a new password: `python manage.py login`.",
        ) from error


def write_logged_out(ended: dict[str, float]) -> None:
    """Keep the logins that were ended one by one."""
    _write(LOGGED_OUT_FILE, ended)


def _folder() -> Path:
    return Path(getattr(settings, "DATA_DIR", ".devui"))


def _parsed(text: str) -> Login:
    told = json.loads(text)
    login = Login(**{name: str(told[name]) for name in ("password", "key", "token")})
    if not login.password or not login.key:
        raise ValueError("half a login")
    return login


def _write(name: str, content: dict[str, Any]) -> None:
    """Write a file of the data folder, mode 0600, in one step: who reads it sees the old one or the new one."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}-")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            json.dump(content, written)
            written.flush()
            os.fsync(written.fileno())
        os.replace(temporary, folder / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
