"""Import of the artifacts of `adk web`, with their version numbers and times."""

from __future__ import annotations

import json
import time
from hashlib import sha256

from django.db import IntegrityError

from sessions_app.store import scopes
from sessions_app.store.artifacts import artifact_versions, content_files
from sessions_app.store.artifacts.artifact_versions import FileKey, VersionMetadata
from sessions_app.store.errors import BadInput
from sessions_app.store.models import Artifact, ImportSource
from sessions_app.transfer.readers.artifact_files import ArtifactFolder, StoredArtifact
from sessions_app.transfer.readers.records import UnreadableRow
from sessions_app.transfer.report import ImportReport

FORMAT = "artifacts of adk web"


def import_artifacts(folder: ArtifactFolder, report: ImportReport, *, dry_run: bool = False) -> None:
    """Import new versions. Stored versions are compared, never changed."""
    for artifact in folder.versions():
        if isinstance(artifact, UnreadableRow):
            report.unread.add(f"{artifact.where}: {artifact.why}")
            continue
        try:
            _import_version(artifact, report, dry_run)
        except (BadInput, OSError) as error:
            report.unread.add(f"{artifact}: {getattr(error, 'message', error)}")
    if not dry_run:
        ImportSource.objects.update_or_create(
            location=folder.location,
            defaults={"format": FORMAT, "fingerprint": folder.fingerprint(), "read_at": time.time()},
        )


def _import_version(artifact: StoredArtifact, report: ImportReport, dry_run: bool) -> None:
    key = artifact_versions.file_key(
        "", artifact.app_name, artifact.user_id, artifact.session_id or None, artifact.filename
    )
    content = artifact.path.read_bytes()
    if duplicate := artifact_versions.list_versions(key).filter(version=artifact.version).first():
        if duplicate.sha256 != sha256(content).hexdigest():
            report.conflicts.add(f"{artifact}: that version is stored with other content")
        return
    if not dry_run and not _store_version(key, artifact, content):
        report.conflicts.add(f"{artifact}: an agent saved that version during the import")
        return
    report.artifacts += 1


def _store_version(key: FileKey, artifact: StoredArtifact, content: bytes) -> bool:
    with content_files.store_content(content) as payload:
        try:
            artifact_versions.restore(
                key, _version_draft(artifact), payload, artifact.version, artifact.created_at
            )
        except IntegrityError:
            return False
    return True


def _version_draft(artifact: StoredArtifact) -> VersionMetadata:
    """Return the row's metadata. A file without a type was saved as text, as ADK reads it."""
    metadata = scopes.dumps(scopes.canonicalize(artifact.custom_metadata).data)
    if artifact.mime_type is None:
        return VersionMetadata(Artifact.Holding.TEXT, "{}", "text/plain", metadata, artifact.session_id)
    blob = {"mimeType": artifact.mime_type}
    if artifact.display_name:
        blob["displayName"] = artifact.display_name
    part = json.dumps({"inlineData": blob})
    return VersionMetadata(Artifact.Holding.DATA, part, artifact.mime_type, metadata, artifact.session_id)
