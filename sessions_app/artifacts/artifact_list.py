"""Read models of the artifact pages: newest versions of files, and the session and event that saved them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app.presentation import file_type
from sessions_app.search.execution.field_terms import column_contains
from sessions_app.store import realms
from sessions_app.store.models import AgentSession, Artifact, Event
from sessions_app.store.session_key import SessionKey

MAX_EVENTS = 1_000
"""Events with artifacts that are scanned for the one that saved a version."""

USER_PREFIX = "user:"
"""Prefix of the names of a user's files, as agents use them."""

LARGE_FIELDS = ("content", "part", "custom_metadata")


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Filter of files; an empty field matches all. `users_own` excludes the files of sessions.

    `name` is part of the file's name as agents use it. It ignores case (outside ASCII on PostgreSQL only).
    """

    app: str = ""
    user: str = ""
    session: str = ""
    users_own: bool = False
    realm: str = ""
    name: str = ""


def newest_versions(criteria: FileFilter) -> QuerySet[Artifact]:
    """Return the newest version of each matching file, without its content."""
    if criteria.realm.startswith(realms.HIDDEN):
        return Artifact.objects.none()
    files = Artifact.objects.filter(realm=criteria.realm)
    if criteria.app:
        files = files.filter(app_name=criteria.app)
    if criteria.user:
        files = files.filter(user_id=criteria.user)
    if criteria.session or criteria.users_own:
        files = files.filter(session_id="" if criteria.users_own else criteria.session)
    if criteria.name:
        files = files.filter(_name_matches(criteria.name))
    same = ("realm", "app_name", "user_id", "session_id", "filename_id")
    newer = Artifact.objects.filter(
        **{name: OuterRef(name) for name in same}, version__gt=OuterRef("version")
    )
    return files.filter(~Exists(newer)).defer(*LARGE_FIELDS)


def _name_matches(part: str) -> Q:
    """Return the condition for a part of a file's name as agents use it, with `user:` for a user's files."""
    if part.startswith(USER_PREFIX):
        return Q(session_id="", filename__istartswith=part.removeprefix(USER_PREFIX))
    return column_contains("filename", part)


def saving_session_key(artifact: Artifact) -> SessionKey:
    """Return the key of the session that saved a version; its id is empty if unknown."""
    session_id = artifact.session_id or artifact.from_session
    return SessionKey(artifact.realm, artifact.app_name, artifact.user_id, session_id)


def fetch_saving_sessions(artifacts: Iterable[Artifact]) -> dict[SessionKey, AgentSession]:
    """Return the existing sessions that saved the versions. Takes one query."""
    return fetch_sessions_by_key({saving_session_key(artifact) for artifact in artifacts})


def fetch_sessions_by_key(keys: Iterable[SessionKey]) -> dict[SessionKey, AgentSession]:
    """Return the existing sessions by their keys. Takes at most one query."""
    keys_with_id = {key for key in keys if key.session_id}
    if not keys_with_id:
        return {}
    fields = zip(SessionKey._fields, zip(*keys_with_id, strict=True), strict=True)
    rows = AgentSession.objects.filter(**{f"{name}__in": set(values) for name, values in fields})
    sessions: dict[SessionKey, AgentSession] = {row.key: row for row in rows}
    return {key: sessions[key] for key in keys_with_id & sessions.keys()}


def is_rewind_mark(artifact: Artifact) -> bool:
    """Return whether a version is the empty data that ADK's rewind saves to hide a file."""
    is_empty = artifact.holding == Artifact.Holding.DATA and not artifact.size
    return is_empty and artifact.mime_type == file_type.BINARY


def find_saving_event(artifact: Artifact, name: str, session: AgentSession) -> int | None:
    """Return the `seq` of the event that saved a version, by the file's name as agents use it.

    None if there is no such event: the version was uploaded, imported, or saved outside a run.
    """
    rows = Event.objects.filter(session=session, summary__contains='"artifacts":').order_by("-seq")
    for seq, data in rows.values_list("seq", "data")[:MAX_EVENTS].iterator(50):
        delta = (json.loads(data).get("actions") or {}).get("artifactDelta") or {}
        if delta.get(name) == artifact.version:
            return int(seq)
    return None
