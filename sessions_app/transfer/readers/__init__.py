"""Reading the stores of other programs: ADK in its languages, `adk web`'s files, session JSON.

Everything here only reads, and never imports ADK: rows are untrusted, so they are not unpickled and not validated
by its models. `sessions_app.transfer.writers` writes what is read.
"""

from sessions_app.transfer.readers.artifact_files import ArtifactFolder, StoredArtifact
from sessions_app.transfer.readers.detection import (
    artifacts_beside,
    fingerprint,
    folder_of_files,
    holds_sessions,
    open_source,
)
from sessions_app.transfer.readers.documents import SentSession, session_events
from sessions_app.transfer.readers.records import (
    Choice,
    Format,
    Owner,
    SharedState,
    Source,
    StoredEvent,
    StoredSession,
    StoredState,
    Unread,
)
from sessions_app.transfer.readers.session_folders import SessionFolder, Walked, walk

__all__ = [
    "ArtifactFolder",
    "Choice",
    "Format",
    "Owner",
    "SentSession",
    "SessionFolder",
    "SharedState",
    "Source",
    "StoredArtifact",
    "StoredEvent",
    "StoredSession",
    "StoredState",
    "Unread",
    "Walked",
    "artifacts_beside",
    "fingerprint",
    "folder_of_files",
    "holds_sessions",
    "open_source",
    "session_events",
    "walk",
]
