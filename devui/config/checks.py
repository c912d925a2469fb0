"""Django system checks for settings that would lose data or admit anybody, each with a hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from devui import embed

Apps = Sequence[AppConfig] | None


@register(Tags.database)
def check_sqlite_options(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn of SQLite without IMMEDIATE transactions or a write-ahead log."""
    database = settings.DATABASES["default"]
    options = database.get("OPTIONS", {})
    if not database["ENGINE"].endswith("sqlite3"):
        return []
    messages: list[CheckMessage] = []
    if options.get("transaction_mode") != "IMMEDIATE":
        messages.append(
            Warning(
                "SQLite starts transactions without the write lock.",
                hint='Set OPTIONS = {"transaction_mode": "IMMEDIATE"}; otherwise concurrent writers fail.',
                id="devui.W001",
            )
        )
    if "wal" not in str(options.get("init_command", "")).lower():
        messages.append(
            Warning(
                "SQLite runs without a write-ahead log: pages wait while an agent's events are stored.",
                hint='Set OPTIONS = {"init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"}.',
                id="devui.W002",
            )
        )
    return messages


@register(Tags.security)
def check_allowed_hosts(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn of a server that accepts any host name, which allows DNS rebinding."""
    if "*" not in settings.ALLOWED_HOSTS:
        return []
    return [
        Warning(
            "ALLOWED_HOSTS holds '*': any web page can reach DevUI by DNS rebinding, read sessions and run agents.",
            hint="Name the hosts: DEVUI_ALLOWED_HOSTS=127.0.0.1,localhost,my.host.",
            id="devui.W003",
        )
    ]


@register(Tags.security)
def check_allowed_origins(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Refuse invalid patterns in DEVUI_ALLOW_ORIGINS."""
    from devui.web import origins  # it imports channels

    try:
        origins.allowed_origins()
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="Write `regex:` and a Python regular expression.", id="devui.E001")]
    return []


@register(Tags.security)
def check_middleware(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a project without DevUI's middleware: its API would be unprotected."""
    missing = [name for name in embed.MIDDLEWARE if name not in settings.MIDDLEWARE]
    if not missing:
        return []
    return [
        Error(
            f"MIDDLEWARE lacks {', '.join(missing)}.",
            hint="Add `MIDDLEWARE += embed.MIDDLEWARE` after `from devui import embed`.",
            id="devui.E002",
        )
    ]


@register(Tags.templates)
def check_context_processors(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a project whose templates lack DevUI's context processors: pages would fail."""
    configured = {name for engine in settings.TEMPLATES for name in _context_processors(engine)}
    missing = [name for name in embed.CONTEXT_PROCESSORS if name not in configured]
    if not missing:
        return []
    return [
        Error(
            f"TEMPLATES lacks the context processors {', '.join(missing)}.",
            hint='Add `TEMPLATES[0]["OPTIONS"]["context_processors"] += embed.CONTEXT_PROCESSORS`.',
            id="devui.E003",
        )
    ]


def _context_processors(engine: dict[str, Any]) -> Iterable[str]:
    return list(engine.get("OPTIONS", {}).get("context_processors", []))
