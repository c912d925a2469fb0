"""Opening of sources: files, folders and databases, whose format importers detect by content."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sessions_app.plugins import FAILURES
from sessions_app.store.errors import BadInput, DevUIError, NotFound
from sessions_app.store.redaction import without_password
from sessions_app.transfer.folder_importer import folder_importers
from sessions_app.transfer.readers.artifact_files import artifacts_fingerprint
from sessions_app.transfer.readers.databases import (
    SQLITE_MAGIC,
    Database,
    SqliteDatabase,
    file_fingerprint,
    open_url,
    read_head,
)
from sessions_app.transfer.readers.formats import all_importers, describe_failure, find_importer, is_plugin
from sessions_app.transfer.readers.importer import Importer
from sessions_app.transfer.readers.records import Source, SourceFilter

SESSION_FILE = "session.db"
LOCAL_FOLDER = ".adk"
ARTIFACTS_FOLDER = "artifacts"

log = logging.getLogger(__name__)


def open_source(location: str, source_filter: SourceFilter = SourceFilter(), zone: tzinfo = UTC) -> Source:
    """Open a file, a folder with `.adk/session.db`, or a database URL for reading.

    Args:
        location: a path, `sqlite:///path`, `postgresql://…` or `mysql://…`.
        source_filter: filter of the sessions.
        zone: time zone of event times in schema v0.

    Raises:
        NotFound: the file does not exist.
        BadInput: the format is not supported; the message names it.
    """
    if path := _local_path(location):
        return _open_path(path, source_filter, zone)
    database = open_url(location)
    try:
        return _open_tables(database, without_password(location), source_filter, zone)
    except BaseException:
        database.close()
        raise


def fingerprint(location: str) -> str:
    """Return a text that changes with a source, without opening it; empty for a server."""
    path = _local_path(location)
    if path is None:
        return ""
    if not path.is_dir():
        return file_fingerprint(path)
    parts = [file_fingerprint(_session_file(path))] if holds_sessions(location) else []
    if artifacts := find_artifacts_folder(location):
        parts.append(artifacts_fingerprint(artifacts))
    for importer in folder_importers:
        parts += importer.find_sources(path).values()
    return " ".join(parts)


def holds_sessions(location: str) -> bool:
    """Tell whether a folder has a session store. Any other location is assumed to be a store."""
    path = _local_path(location)
    return path is None or not path.is_dir() or _find_session_file(path) is not None


def find_artifacts_folder(location: str) -> Path | None:
    """Return the folder of artifacts in an agent's folder, or in its `.adk`, if there is one."""
    path = _local_path(location)
    if path is None:
        return None
    candidates = (path / LOCAL_FOLDER / ARTIFACTS_FOLDER, path / ARTIFACTS_FOLDER)
    return next((candidate for candidate in candidates if (candidate / "apps").is_dir()), None)


def _local_path(location: str) -> Path | None:
    """Return the path that a location names, or None for a server. SQLite URLs are parsed as SQLAlchemy does."""
    if "://" not in location:
        return Path(location).expanduser()
    parts = urlsplit(location)
    if parts.scheme.partition("+")[0] == "sqlite":
        return Path(unquote(parts.path.removeprefix("/")))
    return None


def _open_path(path: Path, source_filter: SourceFilter, zone: tzinfo) -> Source:
    if path.is_dir():
        path = _session_file(path)
    if not path.is_file():
        raise NotFound(f"There is no file {str(path)!r}.", hint="Name a store, a folder with one, or a URL.")
    try:
        head = read_head(path)
    except OSError as error:
        raise BadInput(
            f"{str(path)!r} cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error
    if head.startswith(SQLITE_MAGIC):
        return _open_sqlite(path, source_filter, zone)
    importer, failures = find_importer(lambda candidate: candidate.matches_file(path, head))
    if importer is None:
        raise BadInput(
            f"{str(path)!r} is neither an SQLite database nor JSON.", hint=_supported_formats(failures)
        )
    return _open_source(importer, failures, str(path), lambda: importer.open_file(path, source_filter))


def _find_session_file(folder: Path) -> Path | None:
    candidates = (folder / SESSION_FILE, folder / LOCAL_FOLDER / SESSION_FILE)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _session_file(folder: Path) -> Path:
    session_file = _find_session_file(folder)
    if session_file is None:
        raise NotFound(
            f"The folder {str(folder)!r} holds neither {LOCAL_FOLDER}/{SESSION_FILE} nor artifacts.",
            hint="Name the folder of one agent that `adk web` has run, or one file. Import the files of any other"
            " folder one by one.",
        )
    return session_file


def _open_sqlite(path: Path, source_filter: SourceFilter, zone: tzinfo) -> Source:
    database = SqliteDatabase(path)
    try:
        return _open_tables(database, str(path.resolve()), source_filter, zone)
    except sqlite3.Error as error:
        database.close()
        raise BadInput(f"{str(path)!r} is damaged: {error}.", hint="Restore it from a copy.") from error
    except BaseException:
        database.close()
        raise


def _open_tables(database: Database, location: str, source_filter: SourceFilter, zone: tzinfo) -> Source:
    importer, failures = find_importer(lambda candidate: candidate.matches_database(database))
    if importer is None:
        raise BadInput(
            f"{location!r} is a database, but no store of ADK sessions.", hint=_supported_formats(failures)
        )
    return _open_source(
        importer,
        failures,
        location,
        lambda: importer.open_database(database, location, source_filter, zone),
    )


def _open_source(
    importer: Importer, failures: list[str], location: str, open_store: Callable[[], Source]
) -> Source:
    try:
        source = open_store()
    except FAILURES as error:
        if isinstance(error, DevUIError) or not is_plugin(importer):
            raise
        log.exception("The importer %r failed.", importer.name)
        failure = describe_failure(importer.name, error)
        raise BadInput(
            f"{location!r} cannot be read. {failure}",
            hint="Report it to the author of the importer; the log has the details.",
        ) from error
    source.remarks += failures
    return source


def _supported_formats(failures: list[str]) -> str:
    names = ", ".join(importer.name for importer in all_importers())
    return " ".join([f"DevUI reads: {names}.", *failures])
