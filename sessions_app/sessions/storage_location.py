"""Storage location of sessions: this store or an ADK service, and whether it survives a restart."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from sessions_app.agents import remotes
from sessions_app.store import realms
from sessions_app.store.database import db_errors
from sessions_app.store.database.store_kind import is_file_store
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, MirroredSession

OUR_STORE = "DevUI's own store"

REMOTE = ("http://", "https://")
"""Prefixes of the location of a session owned by a remote server; no ADK service has such a URI."""


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """The storage location of a session, for display.

    Attributes:
        kind: the kind of store, in words.
        where: its file, or its database and server; empty if it has no name.
        survives_restart: whether sessions survive a restart; None: only a remote server knows.
        copy: the store with the copy that pages show; empty: they show the original.
        behind: the difference of the copy; empty: none.
    """

    kind: str
    where: str
    survives_restart: bool | None
    copy: str = ""
    behind: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}".strip()


def store_location() -> StorageLocation:
    """Return the location of this store. No query is made."""
    where = db_errors.current_store_name()
    if not is_file_store():
        return StorageLocation("PostgreSQL", where, survives_restart=True)
    file = str(connection.settings_dict["NAME"])
    if file == getattr(settings, "DEVUI_TEMPORARY_STORE", ""):
        return StorageLocation("a temporary file", "", survives_restart=False)
    if ":memory:" in file or "mode=memory" in file:
        return StorageLocation("memory", "", survives_restart=False)
    return StorageLocation("SQLite", where, survives_restart=True)


def find_location(session: AgentSession) -> StorageLocation:
    """Return the location of a session."""
    mirror = find_mirror(session)
    if mirror is None:
        return store_location()
    is_remote = mirror.place.startswith(REMOTE)
    kind = "the ADK server" if is_remote else "ADK's session service"
    survives = None if is_remote else True
    return StorageLocation(
        kind, mirror.place, survives_restart=survives, copy=str(store_location()), behind=mirror.behind
    )


def find_mirror(session: AgentSession) -> MirroredSession | None:
    """Return the mirror record of a session owned by another service; None: this store owns it."""
    return getattr(session, "mirrored", None)


def find_session_owner(app_name: str = "") -> str:
    """Return the URI of the ADK service, or the address of the remote server, that owns an app's sessions.

    Empty: this store. Without an app, the setting of agents on this machine.
    """
    return _find_service(app_name, "DEVUI_SESSION_SERVICE")


def find_artifact_owner(app_name: str = "") -> str:
    """Return the service that owns an app's artifacts (see `find_session_owner`); empty: this store."""
    return _find_service(app_name, "DEVUI_ARTIFACT_SERVICE")


def find_memory_owner(app_name: str = "") -> str:
    """Return the service that owns an app's memory (see `find_session_owner`); empty: this store."""
    return _find_service(app_name, "DEVUI_MEMORY_SERVICE")


def _find_service(app_name: str, setting: str) -> str:
    remote = remotes.find_remote(app_name)
    return str(getattr(settings, setting, "")) if remote is None else remote.url


def refuse_artifact(app_name: str) -> None:
    """Refuse to save an artifact here if another service owns the app's artifacts: agents would not find it.

    Raises:
        BadInput: another service owns the app's artifacts.
    """
    if where := find_artifact_owner(app_name):
        raise BadInput(
            f"The agents of {app_name!r} keep artifacts in {where} and would not find one that is saved here.",
            hint="Save it there with POST /apps/{app}/users/{user}/sessions/{session}/artifacts.",
        )


def refuse_copy(session: AgentSession) -> None:
    """Refuse to change the copy of a session that another service owns: agents would not see the change.

    Raises:
        BadInput: the session is a copy.
    """
    if find_mirror(session) is not None:
        raise BadInput(
            f"Session {session.session_id!r} belongs to {find_location(session)}; DevUI has a copy.",
            hint="Change it there with a run or ADK's own paths (PATCH, DELETE /apps/…/sessions/…); the copy follows."
            " Or fork it with its own state.",
        )


def refuse_deletion(session: AgentSession) -> None:
    """Refuse to delete a nested session, or a copy while the service that owns it is in use: it would reappear.

    Raises:
        BadInput: the session belongs to a nested run, or the service is in use.
    """
    if nested := realms.find_nested_run(session):
        raise BadInput(
            f"Session {session.session_id!r} belongs to a call of session {nested.outer.session_id!r}.",
            hint="Delete that session: the sessions of its calls are deleted with it.",
        )
    where = find_session_owner(session.app_name)
    mirror = find_mirror(session) if where else None
    if mirror and mirror.place == where:
        raise BadInput(
            f"Session {session.session_id!r} belongs to {where}; DevUI has a copy.",
            hint="Delete both with DELETE /apps/{app}/users/{user}/sessions/{session}.",
        )


def refuse_new(app_name: str) -> None:
    """Refuse to create a session here if another service owns the app's sessions.

    Raises:
        BadInput: another service owns the app's sessions.
    """
    if where := find_session_owner(app_name):
        raise BadInput(
            f"The agents of {app_name!r} keep their sessions in {where} and would not find one that is created here.",
            hint="Create it there with POST /apps/{app}/users/{user}/sessions; DevUI copies it. Fork a session with"
            " its own state.",
        )


def require_same_service(session: AgentSession, where: str) -> None:
    """Refuse a run on a session that its agents would not find.

    Args:
        session: a session outside isolated realms.
        where: URI of the ADK service that owns the agents' sessions; empty: this store.

    Raises:
        BadInput: another service owns the session.
    """
    mirror = find_mirror(session)
    location = mirror.place if mirror else ""
    if location == where:
        return
    start = f"with --session_service_uri {location}" if location else "without --session_service_uri"
    raise BadInput(
        f"Session {session.session_id!r} is kept in {location or OUR_STORE}, but this server's agents keep theirs in"
        f" {where or OUR_STORE}.",
        hint=f"Start the server {start}, or go on in a fork with state of its own.",
    )
