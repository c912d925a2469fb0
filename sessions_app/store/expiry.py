"""Idle and expired sessions, by the time to live (TTL) of their app.

A session expires after its app's TTL in seconds without an event, and is idle from half of that time on. Expired
sessions are only marked; `manage.py purge_sessions` removes them. Without a TTL sessions never expire, and eval
attempts never do.
"""

from __future__ import annotations

import time
from enum import StrEnum
from functools import reduce
from operator import or_

from django.db.models import OuterRef, Q, QuerySet, Subquery

from sessions_app.store.models import AgentSession, AppSettings
from sessions_app.store.realms import LASTING

IDLE_FRACTION = 0.5
"""Fraction of the TTL after which a session without an event is idle."""


class Age(StrEnum):
    """Age of a session relative to its app's TTL."""

    FRESH = "fresh"
    IDLE = "idle"
    EXPIRED = "expired"


def app_ttl(app_name: str) -> float | None:
    """Return an app's TTL in seconds; None: its sessions never expire."""
    return AppSettings.objects.filter(app_name=app_name).values_list("session_ttl_s", flat=True).first()


def annotate_ttl(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Annotate sessions with `ttl_s`, which `find_age` and `expires_at` need. Takes one index seek per row."""
    settings = AppSettings.objects.filter(app_name=OuterRef("app_name"))
    return rows.annotate(ttl_s=Subquery(settings.values("session_ttl_s")[:1]))


def expires_at(session: AgentSession) -> float | None:
    """Return the expiry time of a session annotated by `annotate_ttl`; None if it never expires."""
    ttl_s: float | None = getattr(session, "ttl_s", None)
    return None if ttl_s is None or session.realm not in LASTING else session.updated_at + ttl_s


def find_age(session: AgentSession) -> Age:
    """Return the age of a session annotated by `annotate_ttl`."""
    end = expires_at(session)
    if end is None:
        return Age.FRESH
    remaining_s = end - time.time()
    if remaining_s < 0:
        return Age.EXPIRED
    return Age.IDLE if remaining_s < (1 - IDLE_FRACTION) * (end - session.updated_at) else Age.FRESH


def filter_by_age(rows: QuerySet[AgentSession], age: Age, now: float | None = None) -> QuerySet[AgentSession]:
    """Return the sessions of the given age, by a range of the index on update times."""
    current_time = time.time() if now is None else now
    settings = AppSettings.objects.filter(session_ttl_s__isnull=False)
    ttls = dict(settings.values_list("app_name", "session_ttl_s"))
    if not ttls:
        return rows.none()
    parts = [_age_condition(app_name, ttl or 0.0, age, current_time) for app_name, ttl in ttls.items()]
    fraction = 1.0 if age == Age.EXPIRED else IDLE_FRACTION
    newest = current_time - fraction * min(ttl or 0.0 for ttl in ttls.values())
    # The last condition follows from the others, but bounds the index range.
    return rows.filter(reduce(or_, parts), realm__in=LASTING, updated_at__lt=newest)


def _age_condition(app_name: str, ttl_s: float, age: Age, now: float) -> Q:
    of_app = Q(app_name=app_name)
    if age == Age.EXPIRED:
        return of_app & Q(updated_at__lt=now - ttl_s)
    idle = of_app & Q(updated_at__gte=now - ttl_s)
    return idle & Q(updated_at__lt=now - IDLE_FRACTION * ttl_s)
