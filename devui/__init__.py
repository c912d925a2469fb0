"""DevUI: browse sessions, watch events live and run evalsets of ADK agents."""

from __future__ import annotations

import os

__all__ = ["setup"]


_store_url: str | None = None
"""The URL given to the first call of `setup`."""


def setup(database_url: str | None = None, *, migrate: bool = True) -> None:
    """Set up DevUI's store in any program, such as a script with its own ADK `Runner`.

    Configures Django for the store at `database_url` (by default `DATABASE_URL`, else the file in `.devui/`) and
    creates or migrates its tables. `sqlite://` is a temporary store that is removed at the program's end. Repeated
    calls change nothing. If the program has configured Django itself, its settings apply and `database_url` must be
    omitted.

    Raises:
        ImproperlyConfigured: the URL names no store, or Django is configured already and not for this URL.
        SchemaTooNew: the store was written by a newer DevUI.
        StoreUnavailable: the store cannot be reached, read or written.
    """
    global _store_url
    from django.apps import apps
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    if not settings.configured:
        _store_url = database_url
        if database_url is not None:
            os.environ["DATABASE_URL"] = database_url
        _read_settings()
    elif database_url not in (None, _store_url):
        raise ImproperlyConfigured(
            "devui.setup() was given the URL of a store, but Django is configured already: call setup() first, or"
            " without a URL."
        )
    if not apps.ready:
        import django

        from sessions_app.store.database.gc_tuning import pause_collector

        with pause_collector():
            django.setup()
    if migrate:
        from sessions_app.store.database.schema import ensure_schema
        from sessions_app.store.database.store_guard import guard_store

        ensure_schema()
        guard_store(checks_schema=False)  # the program may migrate it


def _read_settings() -> None:
    """Read the settings that the environment names, or those of programs that run agents.

    Processes that the program starts, such as a server, get the settings of the server.
    """
    from django.conf import ENVIRONMENT_VARIABLE, settings

    if not os.environ.get(ENVIRONMENT_VARIABLE):
        os.environ[ENVIRONMENT_VARIABLE] = "devui.agent_settings"
        settings.INSTALLED_APPS  # noqa: B018 - reads the settings
        os.environ[ENVIRONMENT_VARIABLE] = "devui.settings"
