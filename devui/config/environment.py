"""Settings read from the environment, each refused with one clear line when it cannot be used."""

from __future__ import annotations

import atexit
import ipaddress
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
    " PRAGMA cache_size=-16000;"  # KiB. With SQLite's default, 2,000, appends to a large store read its pages again.
)
"""WAL lets pages read while a run writes. NORMAL: a killed process loses nothing it acknowledged; a power cut
may lose the last commits."""


IN_MEMORY = frozenset({"memory://", "sqlite://", "sqlite:///:memory:"})
"""Stores that last as long as the process that asks for one, as ADK and SQLAlchemy spell them."""


LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
"""What may be the least level that is logged, as ADK's flag names them."""


def read_text(name: str, default: str = "") -> str:
    """Return the variable `name`, or `default` when it is unset or blank."""
    return os.environ.get(name, "").strip() or default


def read_number(name: str, default: int) -> int:
    """Return the variable `name` as a positive whole number.

    Raises:
        ImproperlyConfigured: the value is something else.
    """
    value = read_text(name, str(default))
    if not value.isdecimal() or int(value) == 0:
        raise ImproperlyConfigured(f"{name}={value!r} is no positive whole number: use {default}, say.")
    return int(value)


def read_list(name: str, default: str = "") -> list[str]:
    """Return the comma-separated variable `name` as a list without blanks."""
    return [word.strip() for word in read_text(name, default).split(",") if word.strip()]


def read_networks(name: str) -> list[str]:
    """Return the IP addresses and networks in the comma-separated variable `name`.

    Raises:
        ImproperlyConfigured: an entry is neither.
    """
    entries = read_list(name)
    for entry in entries:
        try:
            ipaddress.ip_network(entry)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name}: {entry!r} is no IP address or network ({error}): write 127.0.0.1 or 10.0.0.0/8, say."
            ) from error
    return entries


def pop_list(name: str) -> list[str]:
    """Return the comma-separated variable `name` and unset it: what is started later does not inherit it."""
    values = read_list(name)
    os.environ.pop(name, None)
    return values


def read_log_level(name: str, default: str) -> str:
    """Return the variable `name` as a level of logging, in any case.

    Raises:
        ImproperlyConfigured: there is no such level.
    """
    value = read_text(name, default)
    if value.lower() not in LOG_LEVELS:
        raise ImproperlyConfigured(f"{name}={value!r} is no level: use one of {', '.join(LOG_LEVELS)}.")
    return value.upper()


def read_url_path(name: str) -> str:
    """Return the path in the variable `name`, a path or a whole URL as in ADK; without a slash at its end.

    Raises:
        ImproperlyConfigured: the value is neither.
    """
    value = read_text(name)
    try:
        path = urlsplit(value).path.strip("/")
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={value!r} is no path ({error}): use /devui, say.") from error
    return f"/{path}" if path else ""


def origin_hosts(origins: list[str]) -> list[str]:
    """Return the hosts that allowed origins vouch for, as in ADK.

    A proxy on this machine sends its own name as Host, and allowing its origin accepts it. `*` gives up the
    check; a `regex:` entry names no host.

    Raises:
        ImproperlyConfigured: an entry cannot be read.
    """
    literal = [origin for origin in origins if not origin.startswith("regex:")]
    hosts = ("*" if origin == "*" else _host_of(origin) for origin in literal)
    return [host for host in hosts if host]


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError as error:
        raise ImproperlyConfigured(
            f"DEVUI_ALLOW_ORIGINS: {origin!r} is no origin ({error}): write https://example.com, say."
        ) from error


POSTGRES_OPTIONS = "-c jit=off"
"""Compiling a query of a page takes PostgreSQL ten times as long as the query. `?options=` in the URL replaces it."""


def read_store_url(default: str) -> str:
    """Return the URL of the store that DATABASE_URL names, made on the spot when it is to be in memory."""
    url = read_text("DATABASE_URL", default)
    return use_temporary_store() if url in IN_MEMORY else url


def use_temporary_store() -> str:
    """Make a store that this process removes at its end, name it to the processes it starts, and return its URL.

    It is a file: the runtimes of the agents are processes of their own, and could not share memory.
    """
    folder = Path(tempfile.mkdtemp(prefix="devui-memory-"))  # mode 0700
    atexit.register(_remove_as_owner, folder, os.getpid())
    file = folder / "devui.sqlite3"
    os.environ["DEVUI_TEMPORARY_STORE"] = str(file)
    os.environ["DATABASE_URL"] = f"sqlite:///{file}"
    return os.environ["DATABASE_URL"]


def _remove_as_owner(folder: Path, owner: int) -> None:
    """Remove a folder when its owner ends, and not when a copy that it forked does."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def database_settings(url: str) -> dict[str, Any]:
    """Return Django's database settings for a store named by `url`.

    `sqlite:///relative.sqlite3`, `sqlite:////absolute.sqlite3` or `postgresql://user:pass@host:port/name`.
    The folder of an SQLite file is made with mode 0700. Stores in memory: see `store_url`.

    Raises:
        ImproperlyConfigured: the URL has another form.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL is malformed: {error}.") from error
    if parts.scheme == "sqlite":
        return _sqlite(url, parts.path)
    if parts.scheme in {"postgresql", "postgres"}:
        return _postgres(url)
    raise ImproperlyConfigured(
        f"DATABASE_URL={_without_password(url)!r} names no store DevUI knows: "
        "use sqlite:///path/to/file.sqlite3 or postgresql://user:password@host:5432/name."
    )


def _sqlite(url: str, path: str) -> dict[str, Any]:
    name = unquote(path.removeprefix("/"))
    if not name or urlsplit(url).netloc:
        raise ImproperlyConfigured(
            f"DATABASE_URL={url!r} names no file: use sqlite:///path/to/file.sqlite3 (three slashes)."
        )
    if urlsplit(url).query:
        raise ImproperlyConfigured(
            f"DATABASE_URL={url!r}: options behind `?` mean nothing to DevUI: leave them out."
        )
    file = Path(name).absolute()
    _make_private_folder(file.parent)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(file),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": SQLITE_PRAGMAS,
        },
    }


def _make_private_folder(folder: Path) -> None:
    if folder.exists():
        return
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The store's folder {str(folder)!r} cannot be made: {error.strerror}. "
            "Set DATABASE_URL to a file in a folder you can write."
        ) from error


def _postgres(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL={_without_password(url)!r} is malformed: {error}."
        ) from error
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise ImproperlyConfigured(
            f"DATABASE_URL={_without_password(url)!r} names no database: postgresql://user:password@host:5432/name."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(port or ""),
        "OPTIONS": {"options": POSTGRES_OPTIONS, **dict(parse_qsl(parts.query))},
    }


def _without_password(url: str) -> str:
    """Return `url` fit for a message: the password is replaced by three stars."""
    head, at, tail = url.rpartition("@")
    if not at:
        return url
    scheme, slashes, account = head.partition("://")
    return f"{scheme}{slashes}{account.split(':', 1)[0]}:***@{tail}"
