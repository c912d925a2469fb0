"""Save, load and delete versions of artifacts. Each function is one synchronous unit of work."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import PureWindowsPath
from typing import IO, NamedTuple

from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet

from sessions_app.store import realms, scopes
from sessions_app.store.artifacts import content_files
from sessions_app.store.database import change_notification
from sessions_app.store.errors import BadInput, ContentMissing, NotFound
from sessions_app.store.ids import check_ids
from sessions_app.store.models import Artifact
from sessions_app.store.session_key import SessionKey

USER_PREFIX = "user:"
"""Prefix of the names of files that belong to the user in all sessions."""

SAVE_ATTEMPTS = 100
"""Tries of a save. Each failed one means that a concurrent save of the same file took the version number."""

CLEAN_BATCH = 500

_DRIVE = re.compile("[A-Za-z]:")


class FileKey(NamedTuple):
    """The key of a file: its owner (an empty session id means the user) and its name without `user:`."""

    realm: str
    app_name: str
    user_id: str
    session_id: str
    filename: str

    @property
    def name(self) -> str:
        """The name that agents use for the file."""
        return self.filename if self.session_id else USER_PREFIX + self.filename

    @property
    def path(self) -> list[str]:
        """The owner within the app, and the name that agents use."""
        return [part for part in (self.user_id, self.session_id, self.name) if part]


@dataclass(frozen=True, slots=True)
class VersionMetadata:
    """Metadata of a version. `part` and `custom_metadata` are JSON; see the `Artifact` model."""

    holding: Artifact.Holding
    part: str
    mime_type: str | None
    custom_metadata: str
    from_session: str


def scope_key(realm: str, app_name: str, user_id: str, session_id: str | None) -> SessionKey:
    """Return the key of a scope of files; without a session the user's files.

    Raises:
        BadInput: an id cannot be stored, or the session's is blank.
    """
    if session_id is not None and not session_id.strip():
        raise BadInput(
            "The session id of an artifact is blank.", hint="Leave it out to mean the user's files."
        )
    key = SessionKey(realm, app_name, user_id, (session_id or "").strip())
    check_ids(key)
    return key


def file_key(realm: str, app_name: str, user_id: str, session_id: str | None, filename: str) -> FileKey:
    """Return the key of a file by ADK's rules: without a session, or with `user:`, it belongs to the user.

    Raises:
        BadInput: an id or the name cannot be stored, or the session's id is blank.
    """
    scope = scope_key(realm, app_name, user_id, session_id)
    if scopes.clean_text(filename) != filename:
        raise BadInput(
            f"The filename {filename[:40]!r} contains a NUL or a lone surrogate, which cannot be stored.",
            hint="Choose a name of valid Unicode text.",
        )
    if filename.startswith(USER_PREFIX):
        scope = scope._replace(session_id="")
    return FileKey(*scope, filename if scope.session_id else filename.removeprefix(USER_PREFIX))


def refuse_path(filename: str) -> None:
    """Refuse to save by a name that leads out of its folder, as ADK's `FileArtifactService` refuses it.

    No file is ever opened by a name here, but what is saved may be written to a folder elsewhere. Names that are
    in the store already, from imports or from before this rule, can still be read and deleted.

    Args:
        filename: a name without its `user:` prefix.

    Raises:
        BadInput: the name starts with a slash or a drive, or has a part `..`, as Windows or POSIX reads it.
    """
    name = filename.strip()
    path = PureWindowsPath(name)  # it takes both kinds of slashes for one
    if _DRIVE.match(name) or path.root or ".." in path.parts:
        raise BadInput(
            f"The artifact name {filename[:80]!r} is a path out of its folder.",
            hint="Leave out the leading slash, the drive or the part '..'; 'reports/may.pdf' is fine.",
        )


def save(key: FileKey, draft: VersionMetadata, payload: content_files.Payload | None) -> Artifact:
    """Save the next version of a file, starting with 0. Concurrent saves never get the same version."""
    for _ in range(SAVE_ATTEMPTS - 1):
        try:
            return _insert_next(key, draft, payload)
        except IntegrityError:
            continue
    return _insert_next(key, draft, payload)


def restore(
    key: FileKey,
    draft: VersionMetadata,
    payload: content_files.Payload | None,
    version: int,
    created_at: float,
) -> None:
    """Insert a version with its original number and time.

    Raises:
        IntegrityError: the version already exists.
    """
    with transaction.atomic():
        _create_version(key, draft, payload, version, created_at)
        change_notification.notify_after_commit()


def find_version(key: FileKey, version: int | None = None) -> Artifact | None:
    """Return a version of a file without its content; the newest by default."""
    return _pick_version(list_versions(key), version)


def require_version(key: FileKey, version: int | None = None) -> Artifact:
    """Return a version of a file without its content; the newest by default.

    Raises:
        NotFound: there is no such version.
    """
    artifact = find_version(key, version)
    if artifact is None:
        raise artifact_missing(key.name, version)
    return artifact


def artifact_missing(name: str, version: int | None = None) -> NotFound:
    """Return the error for an artifact that this store does not have."""
    which = f"{name!r}" if version is None else f"{name!r} in version {version}"
    return NotFound(
        f"There is no artifact {which} in this store.",
        hint="It may have been deleted, or is stored by another artifact service. The list shows all artifacts.",
    )


def refuse_read_only(realm: str) -> None:
    """Refuse to change files of a read-only realm.

    Raises:
        BadInput: the realm belongs to an eval attempt or a nested run.
    """
    if realm.startswith((realms.ATTEMPT, realms.NESTED, *realms.HIDDEN)):
        raise BadInput(
            "The artifacts of eval attempts and nested runs are read-only.", hint="Use another session."
        )


def load_version(key: FileKey, version: int | None = None) -> tuple[Artifact, bytes] | None:
    """Return a version of a file with its content, which is empty for a link.

    Raises:
        ContentMissing: the file beside the store that holds the content is gone.
    """
    artifact = _pick_version(_file_versions(key), version)
    if artifact is None:
        return None
    try:
        return artifact, read_content(artifact)
    except ContentMissing:
        if Artifact.objects.filter(pk=artifact.pk).exists():
            raise
        return None


def read_content(artifact: Artifact) -> bytes:
    """Return the content of a version; empty for a link.

    Raises:
        ContentMissing: the file beside the store that holds it is gone.
    """
    with open_content(artifact) as file:
        return file.read()


def open_content(artifact: Artifact) -> IO[bytes]:
    """Open the content of a version; empty for a link.

    Raises:
        ContentMissing: the file beside the store that holds it is gone.
    """
    if artifact.content is not None or not artifact.sha256:
        return BytesIO(artifact.content or b"")
    try:
        return content_files.open_content(artifact.sha256)
    except FileNotFoundError as error:
        raise ContentMissing(
            f"The content of artifact {artifact.filename!r}, version {artifact.version}, is missing: "
            f"file {artifact.sha256} is not in {content_files.folder()}.",
            hint="Restore the folder together with the store, or set DEVUI_DATA_DIR to its data folder.",
        ) from error


def list_versions(key: FileKey) -> QuerySet[Artifact]:
    """Return a file's versions without their content, oldest first."""
    return _file_versions(key).order_by("version").defer("content")


def list_filenames(scope: SessionKey) -> list[str]:
    """Return the names of the files in a scope: of the session and its user, or of the user only."""
    owner = {"realm": scope.realm, "app_name": scope.app_name, "user_id": scope.user_id}
    rows = Artifact.objects.filter(**owner, session_id__in={"", scope.session_id})
    return sorted(
        FileKey(**owner, session_id=session, filename=name).name
        for session, name in rows.values_list("session_id", "filename").distinct()
    )


def delete_file(key: FileKey) -> set[str]:
    """Delete all versions of a file; return the hashes to pass to `remove_unused_content` after the commit."""
    with transaction.atomic():
        rows = _file_versions(key)
        hashes = set(rows.filter(content=None).exclude(sha256="").values_list("sha256", flat=True))
        rows.delete()
        change_notification.notify_after_commit()
    return hashes


def remove_unused_content(names: Iterable[str]) -> int:
    """Remove the given content files that no row refers to; return their number.

    Waits for saves in progress, so never call it in a transaction or in the writer thread.
    """
    with content_files.lock_exclusively():
        candidates = set(names)
        used = Artifact.objects.filter(sha256__in=candidates, content=None).values_list("sha256", flat=True)
        unused = candidates.difference(used)
        for name in unused:
            content_files.remove(name)
    return len(unused)


def remove_orphaned_content() -> int:
    """Remove all content files without a row, in small batches; return their number."""
    file_names, removed = content_files.list_names(), 0
    while batch := list(islice(file_names, CLEAN_BATCH)):
        removed += remove_unused_content(batch)
    return removed


def _file_versions(key: FileKey) -> QuerySet[Artifact]:
    filters = key._asdict()
    filters["filename_id"] = scopes.key_id(filters.pop("filename"))
    return Artifact.objects.filter(**filters)


def _pick_version(rows: QuerySet[Artifact], version: int | None) -> Artifact | None:
    matches = rows if version is None else rows.filter(version=version)
    return matches.order_by("-version").first()


def _insert_next(key: FileKey, draft: VersionMetadata, payload: content_files.Payload | None) -> Artifact:
    with transaction.atomic():
        newest = _file_versions(key).aggregate(newest=Max("version"))["newest"]
        artifact = _create_version(key, draft, payload, 0 if newest is None else newest + 1, time.time())
        change_notification.notify_after_commit()
    return artifact


def _create_version(
    key: FileKey,
    draft: VersionMetadata,
    payload: content_files.Payload | None,
    version: int,
    created_at: float,
) -> Artifact:
    return Artifact.objects.create(
        **key._asdict(),
        filename_id=scopes.key_id(key.filename),
        version=version,
        holding=draft.holding,
        mime_type=draft.mime_type,
        size=payload.size if payload else 0,
        sha256=payload.sha256 if payload else "",
        content=payload.inline if payload else None,
        part=draft.part,
        custom_metadata=draft.custom_metadata,
        created_at=created_at,
        from_session=draft.from_session,
    )
