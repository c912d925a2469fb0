"""Reading the stores of other programs: ADK in its languages, `adk web`'s files, session JSON.

Everything here only reads, and never imports ADK: rows are untrusted, so they are not unpickled and not validated
by its models. `sessions_app.transfer.writers` writes what is read.
"""

from sessions_app.transfer.readers.artifact_files import ArtifactFolder, StoredArtifact
from sessions_app.transfer.readers.detection import (
    find_artifacts_folder,
    fingerprint,
    holds_sessions,
    open_source,
)
from sessions_app.transfer.readers.documents import SessionDocument, session_events
from sessions_app.transfer.readers.records import (
    Owner,
    SharedState,
    Source,
    SourceError,
    SourceFilter,
    StoredEvent,
    StoredSession,
    StoredState,
    UnreadableRow,
)

__all__ = [
    "ArtifactFolder",
    "Owner",
    "SessionDocument",
    "SharedState",
    "Source",
    "SourceError",
    "SourceFilter",
    "StoredArtifact",
    "StoredEvent",
    "StoredSession",
    "StoredState",
    "UnreadableRow",
    "find_artifacts_folder",
    "fingerprint",
    "holds_sessions",
    "open_source",
    "session_events",
]
