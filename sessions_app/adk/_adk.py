"""The only module of this package that uses private names of ADK; a test covers each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.sessions.session import Session
from google.genai import types

MAX_REFERENCES: int = artifact_util._MAX_ARTIFACT_REFERENCE_DEPTH
"""Maximum number of `artifact://` references that loading an artifact follows."""


def stored_revision(session: Session) -> int | None:
    """Return the revision our service marked a session with, or None for a hand-built or foreign copy."""
    marker = session._storage_update_marker
    return int(marker) if marker and marker.isdecimal() else None


def mark_revision(session: Session, revision: int) -> None:
    """Mark a session with the revision it was read or written at, in ADK's own slot for stores."""
    session._storage_update_marker = str(revision)


def session_factory(app_name: str) -> Callable[[str, str, dict[str, Any], float, int], Session]:
    """Return a factory for an app's sessions without events from (id, user, state, update time, revision).

    The factory restores the state like unpickling, without validation, which would take three quarters of the time.
    """
    model: dict[str, Any] = Session(id="", app_name=app_name, user_id="").__getstate__()
    fields, private = model["__dict__"], model["__pydantic_private__"]

    def make(
        session_id: str, user_id: str, state: dict[str, Any], updated_at: float, revision: int
    ) -> Session:
        session = Session.__new__(Session)
        session_fields = {
            "id": session_id,
            "user_id": user_id,
            "state": state,
            "events": [],
            "last_update_time": updated_at,
        }
        session.__setstate__(
            {
                **model,
                "__dict__": {**fields, **session_fields},
                "__pydantic_fields_set__": set(fields),
                "__pydantic_private__": {**private, "_storage_update_marker": str(revision)},
            }
        )
        return session

    return make


def is_rewind_tombstone(part: types.Part) -> bool:
    """Return whether a part marks an artifact as removed by ADK's rewind; services load it as missing."""
    return artifact_util._is_rewind_tombstone(part)
