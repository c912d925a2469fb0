"""Settings from environment variables. An invalid value raises `ImproperlyConfigured` with a one-line message."""

from __future__ import annotations

import atexit
import importlib.util
import ipaddress
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from django.core.exceptions import ImproperlyConfigured

from sessions_app.store.redaction import without_password
from sessions_app.store.text_input import decode_text

SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
    " PRAGMA cache_size=-16000;"  # KiB. With SQLite's default, 2,000, appends to a large store read its pages again.
)
"""WAL lets pages read while a run writes. NORMAL: a killed process loses nothing that it acknowledged; a power cut
may lose the last commits.
"""


IN_MEMORY = frozenset({"memory://", "sqlite://", "sqlite:///:memory:"})
"""URLs of temporary stores in the spelling of ADK and SQLAlchemy."""


LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
"""Log levels, as in ADK's flag."""


def read_text(name: str, default: str = "") -> str:
    """Return the variable `name`, or `default` if it is unset or blank."""
    return os.environ.get(name, "").strip() or default


def read_secret(name: str) -> str:
    """Return the variable `name`, or the content of the file that `name` with `_FILE` names; empty if both are unset.

    Raises:
        ImproperlyConfigured: both are set, or the file cannot be read.
    """
    value, file = read_text(name), read_text(f"{name}_FILE")
    if value and file:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: unset one of them.")
    try:
        return decode_text(Path(file).read_bytes()).strip() if file else value
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name}_FILE={file!r} cannot be read: {error}.") from error


def read_number(name: str, default: int) -> int:
    """Return the variable `name` as a positive whole number."""
    value = read_text(name, str(default))
    if not value.isdecimal() or int(value) == 0:
        raise ImproperlyConfigured(f"{name}={value!r} is not a positive whole number. Example: {default}.")
    return int(value)


def read_optional_number(name: str) -> int | None:
    """Return the variable `name` as a positive whole number; None if it is unset or blank."""
    return read_number(name, 1) if read_text(name) else None


def read_flag(name: str, default: bool = False) -> bool:
    """Return the variable `name`, 1 or 0, as a truth value; `default` if it is unset.

    Raises:
        ImproperlyConfigured: the value is neither.
    """
    value = read_text(name, "1" if default else "0")
    if value not in {"0", "1"}:
        raise ImproperlyConfigured(f"{name}={value!r} is neither 1 nor 0.")
    return value == "1"


def read_user_header(name: str, trusted_proxies: list[str], has_users: bool) -> str:
    """Return the variable `name` as the name of a header.

    Raises:
        ImproperlyConfigured: nobody could be trusted to set the header, or there are no users.
    """
    value = read_text(name)
    if value and not (trusted_proxies and has_users):
        raise ImproperlyConfigured(
            f"{name}={value!r} needs DEVUI_USERS=1, and in DEVUI_TRUSTED_PROXIES the proxy that sets the header."
        )
    return value


def read_share(name: str, default: float) -> float:
    """Return the variable `name` as a number above 0 and below 1.

    Raises:
        ImproperlyConfigured: the value is no such number.
    """
    value = read_text(name, str(default))
    try:
        share = float(value)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise ImproperlyConfigured(f"{name}={value!r} is not a number between 0 and 1. Example: {default}.")
    return share


def read_list(name: str, default: str = "") -> list[str]:
    """Return the comma-separated variable `name` as a list without blanks."""
    return [word.strip() for word in read_text(name, default).split(",") if word.strip()]


def read_networks(name: str) -> list[str]:
    """Return the IP addresses and networks in the comma-separated variable `name`."""
    entries = read_list(name)
    for entry in entries:
        try:
            ipaddress.ip_network(entry)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name}: {entry!r} is not an IP address or network ({error}). Examples: 127.0.0.1, 10.0.0.0/8."
            ) from error
    return entries


def pop_list(name: str) -> list[str]:
    """Return the comma-separated variable `name` and unset it, so that child processes do not inherit it."""
    values = read_list(name)
    os.environ.pop(name, None)
    return values


def read_log_level(name: str, default: str) -> str:
    """Return the variable `name` as a log level, in any case."""
    value = read_text(name, default)
    if value.lower() not in LOG_LEVELS:
        raise ImproperlyConfigured(
            f"{name}={value!r} is not a log level: use one of {', '.join(LOG_LEVELS)}."
        )
    return value.upper()


ENGINE = "procrastinate"
"""The engine that delivers runs to workers on any host."""

USER_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "devui.accounts"]

ENGINE_APPS = ["procrastinate.contrib.django", "devui.workers"]
"""Django apps of that engine: its tables and those of the workers."""

ENGINE_OPTIONS = " -c idle_in_transaction_session_timeout=30s"
"""With that engine, PostgreSQL ends the transaction of a paused process: others wait for its locks. It is as long as a
process may be silent (`sessions_app.agent_processes.processes.SILENCE_S`).
"""

ENGINE_TIMEOUTS = {"connect_timeout": "3", "tcp_user_timeout": "5000"}
"""Options of connections with that engine: seconds to connect, and milliseconds until an unanswered packet ends one.

Otherwise the system doubles its pauses between repeated packets: after an outage of a minute, up to another minute.
"""


def runtime_environment() -> dict[str, str]:
    """Return the variables of runtimes that differ from those of their server: settings, URL of the store, no engine.

    A runtime takes no jobs, and does not get the secret that an engine needs. If its server has an engine, PostgreSQL
    ends the transactions of a paused runtime, too (`ENGINE_OPTIONS`).
    """
    variables = {}
    if read_text("DJANGO_SETTINGS_MODULE") == "devui.settings":
        variables["DJANGO_SETTINGS_MODULE"] = "devui.agent_settings"
    if url := read_text("DEVUI_AGENT_DATABASE_URL") or read_text("DATABASE_URL"):
        variables["DATABASE_URL"] = url
    if not read_text("DEVUI_ENGINE"):
        return variables
    url_options = dict(parse_qsl(urlsplit(url).query))
    defaults = {"options": POSTGRES_OPTIONS + ENGINE_OPTIONS, **ENGINE_TIMEOUTS}
    query = urlencode({**defaults, **url_options}, quote_via=quote)
    return variables | {"DEVUI_ENGINE": "", "DATABASE_URL": urlsplit(url)._replace(query=query).geturl()}


def read_engine(name: str, database: Mapping[str, Any]) -> str:
    """Return the engine in the variable `name`; empty: this process runs its agents itself.

    Raises:
        ImproperlyConfigured: the engine is unknown, not installed, or lacks PostgreSQL or the workers' shared secret.
    """
    value = read_text(name)
    if value in ("", ENGINE):
        problem = _engine_problem(database) if value else ""
    else:
        problem = (
            f"is not an engine: use {ENGINE}, or unset it to run agents in the web process's own runtimes"
        )
    if problem:
        raise ImproperlyConfigured(f"{name}={value!r} {problem}.")
    return value


def _engine_problem(database: Mapping[str, Any]) -> str:
    if not str(database["ENGINE"]).endswith("postgresql"):
        return "needs PostgreSQL: set DATABASE_URL=postgresql://user:password@host:5432/name"
    if importlib.util.find_spec(ENGINE) is None:
        return 'needs Procrastinate, which is not installed: pip install "devui[scale]"'
    if not read_secret("DEVUI_SECRET_KEY"):
        return "needs DEVUI_SECRET_KEY, with the same value for all web processes and workers"
    return ""


def read_url_path(name: str) -> str:
    """Return the path of the path or URL in the variable `name`, without a trailing slash."""
    value = read_text(name)
    try:
        path = urlsplit(value).path.strip("/")
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={value!r} is not a path ({error}). Example: /devui.") from error
    return f"/{path}" if path else ""


def origin_hosts(origins: list[str]) -> list[str]:
    """Return the hosts of allowed origins, which are allowed as in ADK.

    A proxy on this machine sends its own name as Host; allowing its origin also allows this host. `*` disables the
    check; a `regex:` entry has no host.
    """
    literal = [origin for origin in origins if not origin.startswith("regex:")]
    hosts = ("*" if origin == "*" else _origin_host(origin) for origin in literal)
    return [host for host in hosts if host]


def _origin_host(origin: str) -> str | None:
    try:
        return urlsplit(origin).hostname
    except ValueError as error:
        raise ImproperlyConfigured(
            f"DEVUI_ALLOW_ORIGINS: {origin!r} is not an origin ({error}). Example: https://example.com."
        ) from error


POSTGRES_OPTIONS = "-c jit=off"
"""JIT compilation takes ten times as long as a page's query. `?options=` in the URL replaces this value."""


def read_store_url(default: str) -> str:
    """Return the URL of the store in DATABASE_URL; a temporary store is created for an in-memory URL."""
    url = read_text("DATABASE_URL", default)
    return use_temporary_store() if url in IN_MEMORY else url


def use_temporary_store() -> str:
    """Create a store that is removed with this process, set it for child processes, and return its URL.

    It is a file, because the runtimes are separate processes and could not share memory.
    """
    folder = Path(tempfile.mkdtemp(prefix="devui-memory-"))  # mode 0700
    atexit.register(_remove_as_owner, folder, os.getpid())
    file = folder / "devui.sqlite3"
    os.environ["DEVUI_TEMPORARY_STORE"] = str(file)
    os.environ["DATABASE_URL"] = f"sqlite:///{file}"
    return os.environ["DATABASE_URL"]


def _remove_as_owner(folder: Path, owner: int) -> None:
    """Remove a folder when its owner exits, but not when a fork of the owner does."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def database_settings(url: str) -> dict[str, Any]:
    """Return Django's database settings for a store URL.

    `sqlite:///relative.sqlite3`, `sqlite:////absolute.sqlite3` or `postgresql://user:pass@host:port/name`. The folder
    of an SQLite file is created with mode 0700. In-memory stores: see `read_store_url`.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"DATABASE_URL is malformed: {error}.") from error
    if parts.scheme == "sqlite":
        return _sqlite_settings(url, parts.path)
    if parts.scheme in {"postgresql", "postgres"}:
        return _postgres_settings(url)
    raise ImproperlyConfigured(
        f"DATABASE_URL={without_password(url)!r} is not a supported store URL: "
        "use sqlite:///path/to/file.sqlite3 or postgresql://user:password@host:5432/name."
    )


def _sqlite_settings(url: str, path: str) -> dict[str, Any]:
    name = unquote(path.removeprefix("/"))
    if not name or urlsplit(url).netloc:
        raise ImproperlyConfigured(
            f"DATABASE_URL={url!r} names no file: use sqlite:///path/to/file.sqlite3 (three slashes)."
        )
    if urlsplit(url).query:
        raise ImproperlyConfigured(
            f"DATABASE_URL={url!r}: options after `?` are not supported for SQLite: remove them."
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
            f"The store's folder {str(folder)!r} cannot be created: {error.strerror}. "
            "Set DATABASE_URL to a file in a folder you can write."
        ) from error


def _postgres_settings(url: str) -> dict[str, Any]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL={without_password(url)!r} is malformed: percent-encode / # ? [ in the password."
        ) from error
    name = unquote(parts.path.removeprefix("/"))
    if not name:
        raise ImproperlyConfigured(
            f"DATABASE_URL={without_password(url)!r} names no database: postgresql://user:password@host:5432/name."
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
