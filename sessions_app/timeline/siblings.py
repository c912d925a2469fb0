"""Siblings of a session: sessions of the same app and realm, newest first."""

from __future__ import annotations

from zlib import crc32

from django.db.models import QuerySet

from sessions_app.sessions import listing
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.models import AgentSession, Run

MAX_SIBLINGS = 50


def read_siblings(session: AgentSession, text: str = "") -> list[AgentSession]:
    """Return the newest siblings of a session, including itself; with a text, those that contain it."""
    criteria = listing.SessionFilter(app=session.app_name, text=text, realm=session.realm)
    return list(listing.list_sessions(criteria).order_by("-updated_at", "-pk")[:MAX_SIBLINGS])


def list_mark(realm: str, app_name: str) -> str:
    """Return a text that changes when a sibling is created, changed or renamed, or runs. Two queries."""
    rows = _NEWEST.rows(realm, app_name)
    titles = crc32("\n".join(title for _, _, title in rows).encode())
    newest = (*rows[0][:2], titles) if rows else ()
    running = _ACTIVE_RUNS.rows(realm, app_name)
    return " ".join(map(str, [*newest, *(part for run in running for part in run)]))


def _newest_sessions(realm: str, app_name: str) -> QuerySet[AgentSession, tuple[int, int, str]]:
    sessions = AgentSession.objects.filter(realm=realm, app_name=app_name)
    return sessions.order_by("-updated_at", "-pk").values_list("pk", "revision", "title")[:MAX_SIBLINGS]


def _active_runs(realm: str, app_name: str) -> QuerySet[Run, tuple[str, str]]:
    active = Run.objects.filter(status__in=Run.ACTIVE, session__app_name=app_name, session__realm=realm)
    return active.order_by("created_at").values_list("pk", "status")[:MAX_SIBLINGS]


_NEWEST = CompiledQuery(_newest_sessions, "a realm", "an app")
_ACTIVE_RUNS = CompiledQuery(_active_runs, "a realm", "an app")
