"""Settings of an app's sessions. Each function is one transaction."""

from __future__ import annotations

from django.db import transaction

from sessions_app.store import durations
from sessions_app.store.database import change_notification
from sessions_app.store.ids import check_id
from sessions_app.store.models import AppSettings


def set_session_ttl(app_name: str, ttl_s: float | None) -> None:
    """Set the TTL of an app's sessions, in seconds since the last event; None: they never expire.

    Raises:
        BadInput: the app name or the TTL is invalid.
    """
    check_id("app", app_name)
    seconds = None if ttl_s is None else durations.check_seconds(ttl_s)
    with transaction.atomic():
        AppSettings.objects.update_or_create(app_name=app_name, defaults={"session_ttl_s": seconds})
        change_notification.notify_after_commit()
