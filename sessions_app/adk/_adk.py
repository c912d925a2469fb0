"""The only place of this room that touches names of ADK that start with an underscore; a test uses each."""

from __future__ import annotations

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


def is_rewind_tombstone(part: types.Part) -> bool:
    """Say whether a part is what ADK's rewind saves to hide an artifact: every service loads it as absent."""
    return artifact_util._is_rewind_tombstone(part)
