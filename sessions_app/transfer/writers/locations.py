"""Import of all data of a location: sessions and, in an agent's folder, artifacts and other data."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path

from sessions_app.errors import BadInput, NotFound
from sessions_app.models import ImportSource
from sessions_app.sessions import storage_location
from sessions_app.transfer.folder_importer import FolderImporter, folder_importers
from sessions_app.transfer.readers import (
    ArtifactFolder,
    SessionFolder,
    SourceFilter,
    find_artifacts_folder,
    fingerprint,
    folder_of_files,
    holds_sessions,
    open_source,
    scan_folder,
)
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.artifacts import import_artifacts
from sessions_app.transfer.writers.session_import import Progress, import_sessions


def import_location(
    location: str,
    *,
    source_filter: SourceFilter = SourceFilter(),  # noqa: B008 - frozen
    zone: tzinfo = UTC,
    into_app: str | None = None,
    agent: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import the sessions of a location, and the other data of an agent's folder.

    Any other folder is scanned for files, whose format is detected by content.

    Args:
        location: a path or URL; see `readers.open_source`.
        source_filter: filter of sessions and artifacts.
        zone: time zone of event times in an old store.
        into_app: name of the app to import into, instead of the source's.
        agent: the agent whose folder it is; empty for the folder's name.
        dry_run: report what would be imported without writing.
        progress: called after each batch.

    Raises:
        NotFound: the location does not exist or has no data.
        BadInput: the format is not supported; the message names it.
    """
    options = _ImportOptions(source_filter, zone, into_app, dry_run, progress)
    folder = folder_of_files(location)
    if folder and not _importers_for(folder):
        report = _import_folder(folder, options)
    else:
        report = _import_store(location, agent, options)
    if where := storage_location.session_service_of():
        report.remarks.add(
            f"This server's agents keep their sessions in {where}: what was imported can be read and forked,"
            " not run"
        )
    return report


def fingerprint_of(location: str) -> str:
    """Return a text that changes when there may be new data; empty for a server."""
    folder = folder_of_files(location)
    if not folder or _importers_for(folder):
        return fingerprint(location)
    scan = scan_folder(folder, _is_agent_folder)
    return " ".join([scan.fingerprint(), *(fingerprint(str(place)) for place in scan.agent_folders)])


@dataclass(frozen=True, slots=True)
class _ImportOptions:
    """Options of `import_location`."""

    source_filter: SourceFilter
    zone: tzinfo
    into_app: str | None
    dry_run: bool
    progress: Progress | None


def _importers_for(folder: Path) -> list[FolderImporter]:
    return [importer for importer in folder_importers if folder.is_dir() and importer.find_sources(folder)]


def _is_agent_folder(folder: Path) -> bool:
    """Tell whether a folder is an agent's with data of `adk web`."""
    place = str(folder)
    return holds_sessions(place) or find_artifacts_folder(place) is not None or bool(_importers_for(folder))


def _import_store(location: str, agent: str, options: _ImportOptions) -> ImportReport:
    folder = Path(location).expanduser()
    app_name = options.into_app or agent or folder.resolve().name
    artifacts = find_artifacts_folder(location)
    importers = _importers_for(folder)
    if holds_sessions(location) or not (artifacts or importers):
        with closing(open_source(location, options.source_filter, options.zone)) as source:
            report = import_sessions(
                source, into_app=options.into_app, dry_run=options.dry_run, progress=options.progress
            )
    else:
        report = ImportReport("data of adk web in an agent's folder", location, options.dry_run)
    if artifacts:
        files = ArtifactFolder(artifacts, options.source_filter, old_app=app_name)
        import_artifacts(files, report, into_app=options.into_app, dry_run=options.dry_run)
    for importer in importers:
        importer.import_data(app_name, folder, report)
        for place, text in importer.find_sources(folder).items() if not options.dry_run else ():
            ImportSource.objects.update_or_create(
                location=place,
                defaults={"format": importer.data, "fingerprint": text, "read_at": time.time()},
            )
    return report


def _import_folder(folder: Path, options: _ImportOptions) -> ImportReport:
    """Import a folder: its session JSON as one source, then each store and each agent's folder."""
    scan = scan_folder(folder, _is_agent_folder)
    documents = SessionFolder(folder, scan, options.source_filter)
    if not (scan.agent_folders or scan.stores or documents.holds_any or documents.unread):
        raise NotFound(
            f"The folder {str(folder)!r} holds nothing to import: no session JSON, no store, no agent's"
            f" `.adk`. It has {scan.others + len(scan.documents)} file(s) of other kinds.",
            hint="Name a folder of session JSON, the folder of an agent that `adk web` has run, or a store.",
        )
    report = import_sessions(
        documents, into_app=options.into_app, dry_run=options.dry_run, progress=options.progress
    )
    report.format = "a folder"
    for path in (*scan.stores, *scan.agent_folders):
        name = documents.relative_name(path)
        try:
            report.add(_import_store(str(path), "", options), name)
        except (BadInput, NotFound) as error:
            report.files.add(f"{name}: skipped. {error.message}")
    for path in documents.without_sessions:
        report.files.add(f"{documents.relative_name(path)}: skipped, it has no session")
    for unread in documents.unread:
        report.files.add(f"{unread.where}: could not be read")
    if scan.others:
        report.remarks.add(f"{scan.others} other file(s) are neither JSON nor databases")
    return report
