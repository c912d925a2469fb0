"""Where sessions are kept: in this store, or by one of ADK's own services, and whether that survives a restart."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.db import connection

from sessions_app.agents import remotes
from sessions_app.errors import BadInput
from sessions_app.models import AgentSession, MirroredSession
from sessions_app.store import db_errors

OUR_STORE = "DevUI's own store"

REMOTE = ("http://", "https://")
"""How the place of a session begins that a remote server keeps; no service of ADK has such a URI."""


@dataclass(frozen=True, slots=True)
class StorageLocation:
    """A store as a person may ask for it.

    Attributes:
        kind: what it is, in words.
        where: its file, or its database and server; empty when it has no name.
        survives_restart: what is stored is there when the server starts again; None: only a remote server knows.
        copy: the store that has the copy which pages show; empty: they show what is kept.
        behind: how the copy differs; empty: it does not, or there is none.
    """

    kind: str
    where: str
    survives_restart: bool | None
    copy: str = ""
    behind: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}".strip()


def store_location() -> StorageLocation:
    """Return where this store is. No query is made."""
    database = connection.settings_dict
    where = db_errors.store_name(database, connection.vendor)
    if connection.vendor == "postgresql":
        return StorageLocation("PostgreSQL", where, survives_restart=True)
    file = str(database["NAME"])
    if file == getattr(settings, "DEVUI_TEMPORARY_STORE", ""):
        return StorageLocation("a temporary file", "", survives_restart=False)
    if ":memory:" in file or "mode=memory" in file:
        return StorageLocation("memory", "", survives_restart=False)
    return StorageLocation("SQLite", where, survives_restart=True)


def location_of(session: AgentSession) -> StorageLocation:
    """Return where a session is kept."""
    mirror = mirror_of(session)
    if mirror is None:
        return store_location()
    is_remote = mirror.place.startswith(REMOTE)
    kind = "the ADK server" if is_remote else "ADK's session service"
    survives = None if is_remote else True
    return StorageLocation(
        kind, mirror.place, survives_restart=survives, copy=str(store_location()), behind=mirror.behind
    )


def mirror_of(session: AgentSession) -> MirroredSession | None:
    """Return what is known of the service that keeps a session; None: this store does."""
    return getattr(session, "mirrored", None)


def session_service_of(app_name: str = "") -> str:
    """Return where an app's agents keep their sessions: ADK's URI of a service, or a remote server's address.

    Empty: in this store. Without an app, what holds for those that run on this machine.
    """
    return _service_of(app_name, "DEVUI_SESSION_SERVICE")


def artifact_service_of(app_name: str = "") -> str:
    """Return where an app's agents keep artifacts (see `elsewhere`); empty: in this store."""
    return _service_of(app_name, "DEVUI_ARTIFACT_SERVICE")


def memory_service_of(app_name: str = "") -> str:
    """Return where an app's agents keep memory (see `elsewhere`); empty: in this store."""
    return _service_of(app_name, "DEVUI_MEMORY_SERVICE")


def _service_of(app_name: str, setting: str) -> str:
    remote = remotes.remote_of_app(app_name)
    return str(getattr(settings, setting, "")) if remote is None else remote.url


def refuse_artifact(app_name: str) -> None:
    """Refuse to save an artifact in this store while its agents keep theirs elsewhere: they would not find it.

    Raises:
        BadInput: they do.
    """
    if where := artifact_service_of(app_name):
        raise BadInput(
            f"The agents of {app_name!r} keep artifacts in {where}: one that is saved here they would not find.",
            hint="POST /apps/{app}/users/{user}/sessions/{session}/artifacts saves one there.",
        )


def refuse_copy(session: AgentSession) -> None:
    """Refuse to change a session here that another service keeps: it would not be what agents go on with.

    Raises:
        BadInput: it is a copy.
    """
    if mirror_of(session) is not None:
        raise BadInput(
            f"Session {session.session_id!r} is kept by {location_of(session)}; what is here is a copy.",
            hint="A run or ADK's own paths (PATCH and DELETE /apps/…/sessions/…) change it there, and here with it."
            " In a fork with state of its own anything may be done.",
        )


def refuse_deletion(session: AgentSession) -> None:
    """Refuse to delete a copy while this server's agents go on with the session: it would come back.

    Raises:
        BadInput: they do.
    """
    where = session_service_of(session.app_name)
    mirror = mirror_of(session) if where else None
    if mirror and mirror.place == where:
        raise BadInput(
            f"Session {session.session_id!r} is kept in {where}; what is here is a copy.",
            hint="DELETE /apps/{app}/users/{user}/sessions/{session} deletes it there, and here with it.",
        )


def refuse_new(app_name: str) -> None:
    """Refuse to make a session of real life in this store while its agents keep theirs elsewhere.

    Raises:
        BadInput: they do.
    """
    if where := session_service_of(app_name):
        raise BadInput(
            f"The agents of {app_name!r} keep their sessions in {where}: one that is made here they would not find.",
            hint="POST /apps/{app}/users/{user}/sessions makes one there, and here with it; a fork needs state of"
            " its own.",
        )


def require_same_service(session: AgentSession, where: str) -> None:
    """Refuse a run on a session that its agents would not find.

    Args:
        session: one of real life.
        where: ADK's URI of the service in which the agents keep their sessions; empty: in this store.

    Raises:
        BadInput: the session is not kept there.
    """
    mirror = mirror_of(session)
    kept = mirror.place if mirror else ""
    if kept == where:
        return
    start = f"with --session_service_uri {kept}" if kept else "without --session_service_uri"
    raise BadInput(
        f"Session {session.session_id!r} is kept in {kept or OUR_STORE}, but this server's agents keep theirs in"
        f" {where or OUR_STORE}.",
        hint=f"Start the server {start}, or go on in a fork with state of its own.",
    )
