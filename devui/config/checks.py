"""Django system checks: settings under which DevUI would lose data, or let others in, each with the way out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured

from devui import embed
from devui.web import origins
from sessions_app.agents.folder import open_folder
from sessions_app.errors import BadInput

Apps = Sequence[AppConfig] | None


@register(Tags.database)
def check_sqlite_options(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn of SQLite without IMMEDIATE transactions: readers that turn writers fail with "database is locked"."""
    database = settings.DATABASES["default"]
    options = database.get("OPTIONS", {})
    if not database["ENGINE"].endswith("sqlite3"):
        return []
    messages: list[CheckMessage] = []
    if options.get("transaction_mode") != "IMMEDIATE":
        messages.append(
            Warning(
                "SQLite starts transactions without the write lock.",
                hint='Set OPTIONS = {"transaction_mode": "IMMEDIATE"}: two writers at once fail otherwise.',
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
    """Warn of a server that answers to any name: a page elsewhere can rebind its own name to this machine."""
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
    """Refuse patterns of DEVUI_ALLOW_ORIGINS that are none, before a request meets them."""
    try:
        origins.allowed_origins()
    except ImproperlyConfigured as error:
        return [Error(str(error), hint="Write `regex:` and a Python regular expression.", id="devui.E001")]
    return []


@register(Tags.security)
def check_middleware(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Refuse a project that leaves DevUI's guards out: its API asks for no login and no token."""
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
    """Refuse a project whose templates lack DevUI's context processors: no page could be shown."""
    configured = {name for engine in settings.TEMPLATES for name in _processors(engine)}
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


@register()
def check_agents_folder(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn of a folder of agents that is not there."""
    try:
        open_folder(settings.DEVUI_AGENTS_DIR)
    except BadInput as error:
        hint = f"{error.hint} Set DEVUI_AGENTS_DIR, or name it: manage.py web AGENTS_DIR."
        return [Warning(error.message, hint=hint, id="devui.W004")]
    return []


def _processors(engine: dict[str, Any]) -> Iterable[str]:
    return list(engine.get("OPTIONS", {}).get("context_processors", []))
