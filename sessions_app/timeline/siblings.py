"""Siblings of a session: sessions of the same app and realm, newest first."""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Cast

from sessions_app.sessions import listing
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.models import AgentSession, Run

MAX_SIBLINGS = 50


def read_siblings(session: AgentSession, text: str = "") -> list[AgentSession]:
    """Return the newest siblings of a session, including itself; with a text, those that contain it."""
    criteria = listing.SessionFilter(app=session.app_name, text=text, realm=session.realm)
    return list(listing.list_sessions(criteria).order_by("-updated_at", "-pk")[:MAX_SIBLINGS])


def find_healthy_session(session: AgentSession) -> AgentSession | None:
    """Return the newest other session of the app that begins with the same message and has no problem."""
    if not session.first_text:
        return None
    criteria = listing.SessionFilter(app=session.app_name, realm=session.realm)
    same_begin = listing.list_sessions(criteria).filter(first_text=session.first_text, problem_count=0)
    return same_begin.exclude(pk=session.pk).order_by("-updated_at", "-pk").first()


def list_mark(realm: str, app_name: str) -> str:
    """Return a text that changes when a sibling is created, changed or renamed, or runs. One query."""
    rows = _MARK.rows(realm, app_name)
    siblings = sorted((at, int(pk), revision, title) for part, at, pk, revision, title in rows if part == 0)
    titles = crc32("\n".join(title for *_, title in siblings).encode())
    newest = (*siblings[-1][1:3], titles) if siblings else ()
    running = sorted((at, pk, status) for part, at, pk, status, _ in rows if part == 1)
    return " ".join(map(str, [*newest, *(part for _, *run in running for part in run)]))


def _siblings_and_active_runs(realm: str, app_name: str) -> list[QuerySet[Any, tuple[Any, ...]]]:
    text = partial(Cast, output_field=TextField())
    sessions = AgentSession.objects.filter(realm=realm, app_name=app_name).order_by("-updated_at", "-pk")
    active = Run.objects.filter(status__in=Run.ACTIVE, session__app_name=app_name, session__realm=realm)
    return [
        sessions.values_list("updated_at", text("pk"), text("revision"), "title")[:MAX_SIBLINGS],
        active.order_by("created_at").values_list("created_at", "pk", "status", Value(""))[:MAX_SIBLINGS],
    ]


_MARK = CompiledQuery(_siblings_and_active_runs, "a realm", "an app")
