"""How long an app keeps its sessions, and which of them have expired.

An app may have a time to live (TTL): the seconds without an event after which a session has expired. In the second
half of that time it is idle. Expired sessions are marked, nothing more: `manage.py purge_sessions` removes them. An
app without a TTL keeps its sessions; attempts of evals never expire.
"""

from __future__ import annotations

import time
from enum import StrEnum
from functools import reduce
from operator import or_

from django.db.models import OuterRef, Q, QuerySet, Subquery

from sessions_app.models import AgentSession, AppSettings

IDLE_FRACTION = 0.5
"""Part of its app's TTL after which a session without an event is idle."""


class Age(StrEnum):
    """Where a session stands in its app's TTL."""

    FRESH = "fresh"
    IDLE = "idle"
    EXPIRED = "expired"


def ttl_of(app_name: str) -> float | None:
    """Return an app's TTL in seconds; None: its sessions never expire."""
    return AppSettings.objects.filter(app_name=app_name).values_list("session_ttl_s", flat=True).first()


def annotate_ttl(rows: QuerySet[AgentSession]) -> QuerySet[AgentSession]:
    """Add `ttl_s` to sessions, which `age_of` and `expires_at` read: one index seek a row."""
    settings = AppSettings.objects.filter(app_name=OuterRef("app_name"))
    return rows.annotate(ttl_s=Subquery(settings.values("session_ttl_s")[:1]))


def expires_at(session: AgentSession) -> float | None:
    """Return when a session read by `with_ttl` expires or has expired; None: never."""
    ttl_s: float | None = getattr(session, "ttl_s", None)
    return None if ttl_s is None or session.realm else session.updated_at + ttl_s


def age_of(session: AgentSession, now: float | None = None) -> Age:
    """Return where a session read by `with_ttl` stands."""
    end = expires_at(session)
    if end is None:
        return Age.FRESH
    left = end - (time.time() if now is None else now)
    if left < 0:
        return Age.EXPIRED
    return Age.IDLE if left < (1 - IDLE_FRACTION) * (end - session.updated_at) else Age.FRESH


def filter_by_age(rows: QuerySet[AgentSession], age: Age, now: float | None = None) -> QuerySet[AgentSession]:
    """Return those of the sessions that are idle or expired: a range of the index by time of update."""
    moment = time.time() if now is None else now
    kept = AppSettings.objects.filter(session_ttl_s__isnull=False)
    ttls = dict(kept.values_list("app_name", "session_ttl_s"))
    if not ttls:
        return rows.none()
    parts = [_age_condition(app_name, ttl or 0.0, age, moment) for app_name, ttl in ttls.items()]
    part = 1.0 if age == Age.EXPIRED else IDLE_FRACTION
    newest = moment - part * min(ttl or 0.0 for ttl in ttls.values())
    # That a session is older than `newest` says nothing new, but bounds the range.
    return rows.filter(reduce(or_, parts), realm="", updated_at__lt=newest)


def _age_condition(app_name: str, ttl_s: float, age: Age, now: float) -> Q:
    of_app = Q(app_name=app_name)
    if age == Age.EXPIRED:
        return of_app & Q(updated_at__lt=now - ttl_s)
    idle = of_app & Q(updated_at__gte=now - ttl_s)
    return idle & Q(updated_at__lt=now - IDLE_FRACTION * ttl_s)
