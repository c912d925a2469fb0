"""Reader of the artifacts that `adk web` stores in an agent's folder, as ADK's `FileArtifactService` lays them out.

    apps/{app}/users/{user}/sessions/{session}/artifacts/{file}/versions/{number}/{last part of file, metadata.json}
    apps/{app}/users/{user}/artifacts/{file}/versions/…

Like ADK, this reader ignores the tree without `apps/{app}` of older releases. Paths in `metadata.json` are not trusted:
the path of the payload follows from the layout alone, and links are not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessions_app.store import text_input
from sessions_app.store.events.timestamps import parse_timestamp
from sessions_app.transfer.readers.records import SourceFilter, UnreadableRow

VERSIONS = "versions"
METADATA = "metadata.json"


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """One version of an artifact.

    Attributes:
        session_id: empty for an artifact of the user.
        filename: as the agent named it, perhaps with `user:`.
        mime_type: None if it was saved as text.
        path: of the payload.
    """

    app_name: str
    user_id: str
    session_id: str
    filename: str
    version: int
    mime_type: str | None
    display_name: str | None
    custom_metadata: dict[str, Any]
    created_at: float
    path: Path

    def __str__(self) -> str:
        owner = "/".join(part for part in (self.app_name, self.user_id, self.session_id) if part)
        return f"artifact {self.filename!r} version {self.version} of {owner}"


class ArtifactFolder:
    """Reader of the folder `artifacts`, of the users that a filter matches."""

    def __init__(self, root: Path, source_filter: SourceFilter = SourceFilter()) -> None:
        self.location = str(root.resolve())
        self._root = root
        self._filter = source_filter

    def fingerprint(self) -> str:
        """Return a text that changes when a version is added or removed; empty if there is none."""
        return artifacts_fingerprint(self._root)

    def versions(self) -> Iterator[StoredArtifact | UnreadableRow]:
        """Yield the versions of all files, per file in the order they were saved."""
        for app in _list_folders(self._root / "apps"):
            for user in _list_folders(app / "users"):
                if self._filter.matches(app.name, user.name):
                    yield from _scope_versions(app.name, user.name, "", user / "artifacts")
                    for session in _list_folders(user / "sessions"):
                        yield from _scope_versions(app.name, user.name, session.name, session / "artifacts")


def artifacts_fingerprint(root: Path) -> str:
    """Return a text that changes when a version is added or removed; empty if there is none."""
    newest, count = 0, 0
    for folder, names, _ in os.walk(root / "apps"):
        if os.path.basename(folder) == VERSIONS:
            newest = max(newest, os.stat(folder).st_mtime_ns)
            count += len(names)
            names.clear()
    return f"{newest}:{count}" if count else ""


def _list_folders(folder: Path) -> list[Path]:
    try:
        folders = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(Path(entry.path) for entry in folders)


def _scope_versions(
    app_name: str, user_id: str, session_id: str, root: Path
) -> Iterator[StoredArtifact | UnreadableRow]:
    """Yield the versions of a scope's files. Names may contain `/`, so folders of files may be nested."""
    for folder_path, names, _ in os.walk(root):
        if VERSIONS not in names:
            continue
        names.remove(VERSIONS)
        folder = Path(folder_path)
        for version in sorted(
            _version_folders(folder / VERSIONS), key=lambda version_folder: int(version_folder.name)
        ):
            read = _read_version(version, folder)
            if isinstance(read, UnreadableRow):
                yield read
                continue
            metadata, path = read
            filename = metadata.get("fileName")
            yield StoredArtifact(
                app_name,
                user_id,
                session_id,
                filename if isinstance(filename, str) and filename else folder.relative_to(root).as_posix(),
                int(version.name),
                _text_or_none(metadata.get("mimeType")),
                _text_or_none(metadata.get("displayName")),
                _mapping_or_empty(metadata.get("customMetadata")),
                _created_at(metadata.get("createTime"), path),
                path,
            )


def _version_folders(folder: Path) -> list[Path]:
    return [
        subfolder
        for subfolder in _list_folders(folder)
        if subfolder.name.isascii() and subfolder.name.isdecimal()
    ]


def _read_version(version: Path, folder: Path) -> tuple[dict[str, Any], Path] | UnreadableRow:
    payload, metadata = version / folder.name, version / METADATA
    if payload.is_symlink() or metadata.is_symlink():
        return UnreadableRow(str(version), "it is a link, and links are not followed")
    if not payload.is_file():
        return UnreadableRow(str(version), "its content is missing")
    try:
        metadata_json = text_input.parse_json(text_input.read_file(metadata))
    except FileNotFoundError:
        metadata_json = {}
    except (OSError, ValueError, RecursionError) as error:
        return UnreadableRow(str(metadata), f"it cannot be read: {error}")
    return (
        (metadata_json, payload)
        if isinstance(metadata_json, dict)
        else UnreadableRow(str(metadata), "it is no JSON object")
    )


def _created_at(created_at: object, path: Path) -> float:
    try:
        return parse_timestamp(created_at)
    except ValueError:
        return path.stat().st_mtime


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _mapping_or_empty(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
