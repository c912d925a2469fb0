"""Import of all data of a location: sessions and, in an agent's folder, artifacts and other data."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, tzinfo
from pathlib import Path

from sessions_app.sessions import storage_location
from sessions_app.store.models import ImportSource
from sessions_app.transfer.folder_importer import FolderImporter, folder_importers
from sessions_app.transfer.readers.artifact_files import ArtifactFolder
from sessions_app.transfer.readers.detection import find_artifacts_folder, holds_sessions, open_source
from sessions_app.transfer.readers.records import SourceFilter
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.artifacts import import_artifacts
from sessions_app.transfer.writers.session_import import Progress, import_sessions


def import_location(
    location: str,
    *,
    source_filter: SourceFilter = SourceFilter(),
    zone: tzinfo = UTC,
    agent: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import the sessions of a location, and the other data of an agent's folder.

    Args:
        location: a path or URL; see `readers.open_source`.
        source_filter: filter of sessions and artifacts.
        zone: time zone of event times in an old store.
        agent: the agent whose folder it is; empty for the folder's name.
        dry_run: report what would be imported without writing.
        progress: called after each batch.

    Raises:
        NotFound: the location does not exist or has no data.
        BadInput: the format is not supported; the message names it.
    """
    folder = Path(location).expanduser()
    artifacts, importers = find_artifacts_folder(location), _importers_for(folder)
    if holds_sessions(location) or not (artifacts or importers):
        with closing(open_source(location, source_filter, zone)) as source:
            report = import_sessions(source, dry_run=dry_run, progress=progress)
    else:
        report = ImportReport("data of adk web in an agent's folder", location, dry_run)
    if artifacts:
        files = ArtifactFolder(artifacts, source_filter)
        import_artifacts(files, report, dry_run=dry_run)
    for importer in importers:
        importer.import_data(agent or folder.resolve().name, folder, report)
        if not dry_run:
            _record_sources(importer, folder)
    if where := storage_location.find_session_owner():
        report.remarks.add(
            f"This server's agents keep their sessions in {where}: what was imported can be read and forked,"
            " not run"
        )
    return report


def _importers_for(folder: Path) -> list[FolderImporter]:
    return [importer for importer in folder_importers if folder.is_dir() and importer.find_sources(folder)]


def _record_sources(importer: FolderImporter, folder: Path) -> None:
    """Store the fingerprints of imported data, so that only changed data is offered again."""
    for location, fingerprint in importer.find_sources(folder).items():
        ImportSource.objects.update_or_create(
            location=location,
            defaults={"format": importer.data, "fingerprint": fingerprint, "read_at": time.time()},
        )
