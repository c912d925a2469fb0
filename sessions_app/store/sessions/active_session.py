"""The active session: the newest one of an app and user while it has not expired, else a new one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from sessions_app.store import durations, expiry
from sessions_app.store.database import named_locks
from sessions_app.store.ids import check_ids
from sessions_app.store.models import AgentSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes


def find_active(
    app_name: str, user_id: str, ttl_s: float | None = None, *, realm: str = "", now: float | None = None
) -> AgentSession | None:
    """Return a user's newest session in an app whose last event is at most `ttl_s` seconds old, or None.

    The default of `ttl_s` is the app's TTL; without either, the newest session is active at any age.

    Raises:
        BadInput: the TTL is invalid.
    """
    within = expiry.app_ttl(app_name) if ttl_s is None else durations.check_seconds(ttl_s)
    rows = AgentSession.objects.filter(realm=realm, app_name=app_name, user_id=user_id)
    if within is not None:
        rows = rows.filter(updated_at__gte=(time.time() if now is None else now) - within)
    return rows.order_by("-updated_at", "-pk").first()


def get_or_create(
    app_name: str,
    user_id: str,
    ttl_s: float | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    realm: str = "",
    now: float | None = None,
) -> tuple[AgentSession, bool]:
    """Return the active session (see `find_active`), else a new one seeded with `state`, and whether it is new.

    Concurrent callers for one app and user are serialized, so they get the same session.

    Raises:
        BadInput: an id or the TTL is invalid.
    """
    key = check_ids(SessionKey(realm, app_name, user_id, str(uuid.uuid4())))
    with transaction.atomic():
        # before all row locks and only here, so it cannot cause a deadlock
        named_locks.take_lock("\x1f".join(("devui active session", *key[:3])))
        active = find_active(app_name, user_id, ttl_s, realm=realm, now=now)
        if active is not None:
            return active, False
        return writes.create_session(key, state, now=now), True
