"""Importing all that a location holds: a store of sessions and, in an agent's folder, what lies beside it."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, tzinfo
from pathlib import Path

from sessions_app.extras import extras
from sessions_app.importers import ArtifactFolder, Choice, artifacts_beside, holds_sessions, open_source
from sessions_app.imports.artifacts import import_artifacts
from sessions_app.imports.replay import Progress, import_sessions
from sessions_app.imports.report import Report
from sessions_app.models import ImportSource


def import_location(
    location: str,
    *,
    choice: Choice = Choice(),  # noqa: B008 - frozen
    zone: tzinfo = UTC,
    into_app: str | None = None,
    agent: str = "",
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Import the sessions of a location, and from an agent's folder what else lies there.

    Args:
        location: a path or URL; see `importers.open_source`.
        choice: which sessions and artifacts are wanted.
        zone: of an old store's event times.
        into_app: the app to import into, whatever the source calls it.
        agent: the agent whose folder it is; empty: the one that the folder is named after.
        dry_run: only say what would happen.
        progress: hears how far it is.

    Raises:
        NotFound: there is nothing there.
        BadInput: it is nothing that can be read; the message says what it is.
    """
    folder = Path(location).expanduser()
    app_name = into_app or agent or folder.resolve().name
    artifacts = artifacts_beside(location)
    beside = [extra for extra in extras if folder.is_dir() and extra.find(folder)]
    if holds_sessions(location) or not (artifacts or beside):
        with closing(open_source(location, choice, zone)) as source:
            report = import_sessions(source, into_app=into_app, dry_run=dry_run, progress=progress)
    else:
        report = Report("what adk web left beside an agent", location, dry_run)
    if artifacts:
        files = ArtifactFolder(artifacts, choice, old_app=app_name)
        import_artifacts(files, report, into_app=into_app, dry_run=dry_run)
    for extra in beside:
        extra.bring(app_name, folder, report)
        if not dry_run:
            _remember(extra.what, extra.find(folder))
    return report


def _remember(what: str, found: dict[str, str]) -> None:
    for location, fingerprint in found.items():
        ImportSource.objects.update_or_create(
            location=location, defaults={"format": what, "fingerprint": fingerprint, "read_at": time.time()}
        )
