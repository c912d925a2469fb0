"""Import of all data of a location: sessions and, in an agent's folder, artifacts."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, tzinfo

from sessions_app.sessions import storage_location
from sessions_app.transfer.readers import (
    ArtifactFolder,
    SourceFilter,
    find_artifacts_folder,
    holds_sessions,
    open_source,
)
from sessions_app.transfer.report import ImportReport
from sessions_app.transfer.writers.artifacts import import_artifacts
from sessions_app.transfer.writers.session_import import Progress, import_sessions


def import_location(
    location: str,
    *,
    source_filter: SourceFilter = SourceFilter(),  # noqa: B008 - frozen
    zone: tzinfo = UTC,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import the sessions of a location, and the artifacts of an agent's folder.

    Args:
        location: a path or URL; see `readers.open_source`.
        source_filter: filter of sessions and artifacts.
        zone: time zone of event times in an old store.
        dry_run: report what would be imported without writing.
        progress: called after each batch.

    Raises:
        NotFound: the location does not exist or has no data.
        BadInput: the format is not supported; the message names it.
    """
    artifacts = find_artifacts_folder(location)
    if holds_sessions(location) or not artifacts:
        with closing(open_source(location, source_filter, zone)) as source:
            report = import_sessions(source, dry_run=dry_run, progress=progress)
    else:
        report = ImportReport("data of adk web in an agent's folder", location, dry_run)
    if artifacts:
        files = ArtifactFolder(artifacts, source_filter)
        import_artifacts(files, report, dry_run=dry_run)
    if where := storage_location.session_service_of():
        report.remarks.add(
            f"This server's agents keep their sessions in {where}: what was imported can be read and forked,"
            " not run"
        )
    return report
