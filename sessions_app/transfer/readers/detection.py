"""Detection of the format of a source by its content. Names and suffixes are not trusted."""

from __future__ import annotations

import sqlite3
from datetime import UTC, tzinfo
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sessions_app.errors import BadInput, NotFound
from sessions_app.events.timestamps import is_in_milliseconds
from sessions_app.redaction import without_password
from sessions_app.transfer.readers.artifact_files import artifacts_fingerprint
from sessions_app.transfer.readers.databases import (
    SQLITE_MAGIC,
    Database,
    SqliteDatabase,
    file_fingerprint,
    open_url,
)
from sessions_app.transfer.readers.documents import ExportDocument, SessionDocument, is_export
from sessions_app.transfer.readers.records import Format, Source, SourceFilter
from sessions_app.transfer.readers.rust import RustSource
from sessions_app.transfer.readers.tables import TableSource, decode_json, first_row

SESSION_FILE = "session.db"
LOCAL_FOLDER = ".adk"
ARTIFACTS_FOLDER = "artifacts"
KNOWN_VERSION = "1"
_SUPPORTED_SOURCES = (
    "DevUI reads stores of ADK for Python (Sqlite, Database v0 and v1), JavaScript, Go and Rust,"
    " session JSON and its own exports."
)


def open_source(location: str, choice: SourceFilter = SourceFilter(), zone: tzinfo = UTC) -> Source:  # noqa: B008 - frozen
    """Open a file, a folder with `.adk/session.db`, or a database URL for reading.

    Args:
        location: a path, `sqlite:///path`, `postgresql://…` or `mysql://…`.
        choice: filter of the sessions.
        zone: time zone of event times in schema v0.

    Raises:
        NotFound: the file does not exist.
        BadInput: the format is not supported; the message names it.
    """
    if path := _path_of(location):
        return _open_path(path, choice, zone)
    database = open_url(location)
    try:
        return _open_tables(database, without_password(location), choice, zone)
    except BaseException:
        database.close()
        raise


def fingerprint(location: str) -> str:
    """Return a text that changes with a source, without opening it; empty for a server."""
    path = _path_of(location)
    if path is None:
        return ""
    if not path.is_dir():
        return file_fingerprint(path)
    parts = [file_fingerprint(_session_file(path))] if holds_sessions(location) else []
    if artifacts := find_artifacts_folder(location):
        parts.append(artifacts_fingerprint(artifacts))
    return " ".join(parts)


def folder_of_files(location: str) -> Path | None:
    """Return the folder that a location names, unless it has data of `adk web`."""
    path = _path_of(location)
    if path is None or not path.is_dir() or holds_sessions(location) or find_artifacts_folder(location):
        return None
    return path


def holds_sessions(location: str) -> bool:
    """Tell whether a folder has a session store. Any other location is assumed to be a store."""
    path = _path_of(location)
    return path is None or not path.is_dir() or _find_session_file(path) is not None


def find_artifacts_folder(location: str) -> Path | None:
    """Return the folder of artifacts in an agent's folder, or in its `.adk`, if there is one."""
    path = _path_of(location)
    if path is None:
        return None
    places = (path / LOCAL_FOLDER / ARTIFACTS_FOLDER, path / ARTIFACTS_FOLDER)
    return next((place for place in places if (place / "apps").is_dir() or (place / "users").is_dir()), None)


def _path_of(location: str) -> Path | None:
    """Return the path that a location names, or None for a server. SQLite URLs are parsed as SQLAlchemy does."""
    if "://" not in location:
        return Path(location).expanduser()
    parts = urlsplit(location)
    if parts.scheme.partition("+")[0] == "sqlite":
        return Path(unquote(parts.path.removeprefix("/")))
    return None


def _open_path(path: Path, choice: SourceFilter, zone: tzinfo) -> Source:
    if path.is_dir():
        path = _session_file(path)
    if not path.is_file():
        raise NotFound(f"There is no file {str(path)!r}.", hint="Name a store, a folder with one, or a URL.")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise BadInput(
            f"{str(path)!r} cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error
    if head.startswith(SQLITE_MAGIC):
        return _open_sqlite(path, choice, zone)
    if head.lstrip()[:1] not in (b"{", b"["):
        raise BadInput(f"{str(path)!r} is neither an SQLite database nor JSON.", hint=_SUPPORTED_SOURCES)
    return ExportDocument(path, choice) if is_export(path) else SessionDocument(path, choice)


def _find_session_file(folder: Path) -> Path | None:
    places = (folder / SESSION_FILE, folder / LOCAL_FOLDER / SESSION_FILE)
    return next((place for place in places if place.is_file()), None)


def _session_file(folder: Path) -> Path:
    session_file = _find_session_file(folder)
    if session_file is None:
        raise NotFound(
            f"The folder {str(folder)!r} holds neither {LOCAL_FOLDER}/{SESSION_FILE} nor artifacts.",
            hint="Name the folder of one agent that `adk web` has run, or a store itself.",
        )
    return session_file


def _open_sqlite(path: Path, choice: SourceFilter, zone: tzinfo) -> Source:
    database = SqliteDatabase(path)
    try:
        return _open_tables(database, str(path.resolve()), choice, zone)
    except sqlite3.Error as error:
        database.close()
        raise BadInput(f"{str(path)!r} is damaged: {error}.", hint="Restore it from a copy.") from error
    except BaseException:
        database.close()
        raise


def _open_tables(database: Database, location: str, choice: SourceFilter, zone: tzinfo) -> TableSource:
    kind = detect_format(database, location)
    reader = RustSource if kind is Format.RUST else TableSource
    return reader(database, kind, location, choice, zone)


def detect_format(database: Database, location: str) -> Format:
    """Return the format of a database by its columns and their values.

    Raises:
        BadInput: the format is unknown or of a newer ADK.
    """
    sessions, events = database.columns("sessions"), database.columns("events")
    if not {"app_name", "user_id", "state"} <= sessions or not {"id", "session_id", "timestamp"} <= events:
        raise BadInput(f"{location!r} is a database, but no store of ADK sessions.", hint=_SUPPORTED_SOURCES)
    if "session_id" in sessions and "llm_response" in events:
        return Format.RUST
    if "event_data" in events:
        return _detect_json_events(database, location)
    if "actions" not in events:
        raise BadInput(f"{location!r} keeps events in a way that no known ADK does.", hint=_SUPPORTED_SOURCES)
    return _detect_actions(database, events)


def _detect_json_events(database: Database, location: str) -> Format:
    version = None
    if database.columns("adk_internal_metadata"):
        metadata = {row["key"]: row["value"] for row in database.rows("SELECT * FROM adk_internal_metadata")}
        version = metadata.get("schema_version")
    if version not in (None, KNOWN_VERSION):
        raise BadInput(
            f"{location!r} has schema version {version}; this DevUI knows {KNOWN_VERSION}.",
            hint="It was written by a newer ADK: update DevUI.",
        )
    session = first_row(database, "SELECT update_time FROM sessions LIMIT 1")
    event = first_row(database, "SELECT event_data FROM events WHERE event_data IS NOT NULL LIMIT 1")
    if is_in_milliseconds(session.get("update_time")) or is_in_milliseconds(
        _timestamp_of(event.get("event_data"))
    ):
        return Format.JS
    return Format.V1 if version else Format.SQLITE


def _timestamp_of(event_data: object) -> object:
    try:
        event = decode_json(event_data)
    except ValueError:
        return None
    return event.get("timestamp") if isinstance(event, dict) else None


def _detect_actions(database: Database, events: set[str]) -> Format:
    """Distinguish JSON (Go) from pickles (Python) in the column `actions`."""
    sql = "SELECT actions FROM events WHERE actions IS NOT NULL LIMIT 1"
    actions = first_row(database, sql).get("actions")
    if actions is None:
        return Format.GO if "routes_json" in events else Format.V0
    head = bytes(actions[:1]) if isinstance(actions, bytes | bytearray | memoryview) else b"{"
    return Format.GO if head == b"{" else Format.V0
