"""The only place of this room that touches names of ADK that start with an underscore; a test uses each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.artifacts import artifact_util
from google.adk.sessions.session import Session
from google.genai import types

MAX_REFERENCES: int = artifact_util._MAX_ARTIFACT_REFERENCE_DEPTH
"""Most `artifact://` references that loading an artifact follows."""


def stored_revision(session: Session) -> int | None:
    """Return the revision our service marked a session with, or None for a hand-built or foreign copy."""
    marker = session._storage_update_marker
    return int(marker) if marker and marker.isdecimal() else None


def mark_revision(session: Session, revision: int) -> None:
    """Mark a session with the revision it was read or written at, in ADK's own slot for stores."""
    session._storage_update_marker = str(revision)


def sessions_of(app_name: str) -> Callable[[str, str, dict[str, Any], float, int], Session]:
    """Return what makes an app's sessions without events of (id, user, state, time of update, revision).

    It does as unpickling does: to check fields that come from the store takes three quarters of the time of making
    such a session.
    """
    model: dict[str, Any] = Session(id="", app_name=app_name, user_id="").__getstate__()
    fields, private = model["__dict__"], model["__pydantic_private__"]

    def make(
        session_id: str, user_id: str, state: dict[str, Any], updated_at: float, revision: int
    ) -> Session:
        session = Session.__new__(Session)
        own = {
            "id": session_id,
            "user_id": user_id,
            "state": state,
            "events": [],
            "last_update_time": updated_at,
        }
        session.__setstate__(
            {
                **model,
                "__dict__": {**fields, **own},
                "__pydantic_fields_set__": set(fields),
                "__pydantic_private__": {**private, "_storage_update_marker": str(revision)},
            }
        )
        return session

    return make


def is_rewind_tombstone(part: types.Part) -> bool:
    """Say whether a part is what ADK's rewind saves to hide an artifact: every service loads it as absent."""
    return artifact_util._is_rewind_tombstone(part)
