"""Artifacts for pages: the files of all sessions and users, newest first, and the event that wrote a version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from sessions_app import realms
from sessions_app.ids import SessionKey
from sessions_app.models import AgentSession, Artifact, Event
from sessions_app.search.execution.column_terms import column_contains

MAX_EVENTS = 1_000
"""Events of a session that saved artifacts, among which the one that saved a version is looked for."""

USER_PREFIX = "user:"
"""How the names of a user's own files begin, as agents know them."""

LARGE_FIELDS = ("content", "part", "custom_metadata")


@dataclass(frozen=True, slots=True)
class FileFilter:
    """Which files are meant; an empty text means all. `session` names a session, `users_own` leaves those out.

    `name` is a part of the file's name as agents know it, in any case (of letters outside ASCII on PostgreSQL only).
    """

    app: str = ""
    user: str = ""
    session: str = ""
    users_own: bool = False
    realm: str = ""
    name: str = ""


def newest_versions(wanted: FileFilter) -> QuerySet[Artifact]:
    """Return the newest version of each file that is wanted, content left aside."""
    if wanted.realm.startswith(realms.HIDDEN):
        return Artifact.objects.none()
    found = Artifact.objects.filter(realm=wanted.realm)
    if wanted.app:
        found = found.filter(app_name=wanted.app)
    if wanted.user:
        found = found.filter(user_id=wanted.user)
    if wanted.session or wanted.users_own:
        found = found.filter(session_id="" if wanted.users_own else wanted.session)
    if wanted.name:
        found = found.filter(_name_matches(wanted.name))
    same = ("realm", "app_name", "user_id", "session_id", "filename_id")
    newer = Artifact.objects.filter(
        **{name: OuterRef(name) for name in same}, version__gt=OuterRef("version")
    )
    return found.filter(~Exists(newer)).defer(*LARGE_FIELDS)


def _name_matches(part: str) -> Q:
    """Match files by a part of their name as agents know it: that of a user's own begins with `user:`."""
    if part.startswith(USER_PREFIX):
        return Q(session_id="", filename__istartswith=part.removeprefix(USER_PREFIX))
    return column_contains("filename", part)


def saving_session_key(artifact: Artifact) -> SessionKey:
    """Return the key of the session that a version was saved in; without an id when that is not known."""
    session_id = artifact.session_id or artifact.from_session
    return SessionKey(artifact.realm, artifact.app_name, artifact.user_id, session_id)


def fetch_saving_sessions(artifacts: Iterable[Artifact]) -> dict[SessionKey, AgentSession]:
    """Return the sessions that versions were saved in, those that there are. One query."""
    return fetch_sessions_by_key({saving_session_key(artifact) for artifact in artifacts})


def fetch_sessions_by_key(keys: Iterable[SessionKey]) -> dict[SessionKey, AgentSession]:
    """Return sessions by what names them, those that there are. One query, or none."""
    wanted = {key for key in keys if key.session_id}
    if not wanted:
        return {}
    fields = zip(SessionKey._fields, zip(*wanted, strict=True), strict=True)
    rows = AgentSession.objects.filter(**{f"{name}__in": set(values) for name, values in fields})
    found = {SessionKey(row.realm, row.app_name, row.user_id, row.session_id): row for row in rows}
    return {key: found[key] for key in wanted & found.keys()}


def find_saving_event(artifact: Artifact, name: str, session: AgentSession) -> int | None:
    """Return the `seq` of the event that saved a version, by the name that agents know the file by.

    None: no event says so. It was uploaded, imported without its event, or saved outside of a run.
    """
    rows = Event.objects.filter(session=session, summary__contains='"artifacts":').order_by("-seq")
    for seq, data in rows.values_list("seq", "data")[:MAX_EVENTS].iterator(50):
        delta = (json.loads(data).get("actions") or {}).get("artifactDelta") or {}
        if delta.get(name) == artifact.version:
            return int(seq)
    return None
