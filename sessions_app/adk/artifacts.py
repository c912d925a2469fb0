"""`DjangoArtifactService`: ADK's artifacts in DevUI's store."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any

from google.adk.artifacts.artifact_util import (
    get_artifact_uri,
    is_artifact_ref,
    parse_artifact_uri,
    resolve_artifact_reference,
    validate_artifact_reference_scope,
)
from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types
from typing_extensions import override

from sessions_app.adk import _adk, adk_errors
from sessions_app.store import scopes
from sessions_app.store.artifacts import artifact_versions, content_files
from sessions_app.store.artifacts.artifact_versions import FileKey, VersionMetadata
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Artifact

Holding = Artifact.Holding


class DjangoArtifactService(BaseArtifactService):
    """ADK's artifact service over DevUI's store, for any `Runner`, inside or outside the server.

    Names are values, not paths: ids and filenames may hold any character, and no file is opened by them. As in ADK's
    file service, saving under a name that leads out of a folder (`../a`, `/a`, `C:a`) is refused. A user's artifact is
    listed as `user:name`, which loads in every session, and without one.

    Args:
        realm: isolated namespace to work in; empty: none. A service sees only its own realm.
    """

    def __init__(self, realm: str = "") -> None:
        self.realm = realm

    @override
    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version of a file and return its number; the first is 0.

        Raises:
            InputValidationError: an id, the name or the part cannot be stored, the name leads out of its folder,
                or a reference points outside its scope.
        """
        key = self._file_key(app_name, user_id, session_id, filename)
        with adk_errors.translate_errors():
            artifact_versions.refuse_path(key.filename)
        part = ensure_part(artifact)
        _check_reference(part, app_name, user_id, session_id)
        draft, content = _split_part(part, custom_metadata, session_id)
        # A cancelled run must not release the file before its row is committed.
        return await asyncio.shield(asyncio.ensure_future(_save_version(key, draft, content)))

    @override
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version, by default the newest; None if it does not exist or was hidden by a rewind.

        `artifact://` references are followed.

        Raises:
            InputValidationError: a reference points outside its scope, or the chain of references is too long.
            ContentMissing: the file that holds the content is gone.
        """
        key = self._file_key(app_name, user_id, session_id, filename)
        return await self._load_version(key, version, session_id, _adk.MAX_REFERENCES)

    @override
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the names that load in the session: its own and, as `user:name`, the user's."""
        with adk_errors.translate_errors():
            scope = artifact_versions.scope_key(self.realm, app_name, user_id, session_id)
        return await units_of_work.read(artifact_versions.list_filenames, scope)

    @override
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions of a file. Deleting a missing file is not an error."""
        hashes = await units_of_work.write(
            artifact_versions.delete_file, self._file_key(app_name, user_id, session_id, filename)
        )
        if hashes:
            await units_of_work.read(artifact_versions.remove_unused_content, hashes)

    @override
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of a file's versions, oldest first."""
        key = self._file_key(app_name, user_id, session_id, filename)
        return [artifact.version for artifact in await units_of_work.read(_list_versions, key)]

    @override
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return the metadata of a file's versions, oldest first."""
        key = self._file_key(app_name, user_id, session_id, filename)
        return [
            _describe_version(key, artifact) for artifact in await units_of_work.read(_list_versions, key)
        ]

    @override
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the metadata of a version, by default the newest; None if it does not exist."""
        key = self._file_key(app_name, user_id, session_id, filename)
        artifact = await units_of_work.read(artifact_versions.find_version, key, version)
        return _describe_version(key, artifact) if artifact else None

    async def _load_version(
        self, key: FileKey, version: int | None, session_id: str | None, references: int
    ) -> types.Part | None:
        """Load a version, following at most `references` references."""
        stored = await units_of_work.read(artifact_versions.load_version, key, version)
        if stored is None:
            return None
        part = _join_part(*stored)
        if not is_artifact_ref(part):
            return None if _adk.is_rewind_tombstone(part) else part
        target = resolve_artifact_reference(
            file_uri=_file_uri(part),
            app_name=key.app_name,
            user_id=key.user_id,
            session_id=session_id,
            remaining_depth=references,
        )
        target_key = self._file_key(target.app_name, target.user_id, target.session_id, target.filename)
        return await self._load_version(target_key, target.version, target.session_id, references - 1)

    def _file_key(self, app_name: str, user_id: str, session_id: str | None, filename: str) -> FileKey:
        with adk_errors.translate_errors():
            return artifact_versions.file_key(self.realm, app_name, user_id, session_id, filename)


async def _save_version(key: FileKey, draft: VersionMetadata, content: bytes | None) -> int:
    with ExitStack() as stack:
        payload = None
        if content is not None:
            payload = await asyncio.to_thread(stack.enter_context, content_files.store_content(content))
        artifact = await units_of_work.write(artifact_versions.save, key, draft, payload)
    return artifact.version


def _list_versions(key: FileKey) -> list[Artifact]:
    return list(artifact_versions.list_versions(key))


def _file_uri(part: types.Part) -> str:
    return (part.file_data and part.file_data.file_uri) or ""


def _check_reference(part: types.Part, app_name: str, user_id: str, session_id: str | None) -> None:
    if part.inline_data or part.text is not None or not is_artifact_ref(part):
        return
    target = parse_artifact_uri(_file_uri(part))
    if target is None:
        raise InputValidationError(f"Invalid artifact reference URI: {_file_uri(part)}")
    validate_artifact_reference_scope(
        app_name=app_name, user_id=user_id, session_id=session_id, parsed_uri=target
    )


def _split_part(
    part: types.Part, metadata: dict[str, Any] | None, session_id: str | None
) -> tuple[VersionMetadata, bytes | None]:
    """Split a part into its row's fields and its content, checking the part's fields in ADK's order."""
    mime_type: str | None
    if (blob := part.inline_data) is not None:
        if blob.data is None:
            raise InputValidationError("Artifact inline_data must contain data.")
        holding, content, mime_type = Holding.DATA, blob.data, blob.mime_type
        part = part.model_copy(update={"inline_data": blob.model_copy(update={"data": None})})
    elif part.text is not None:
        holding, content, mime_type = Holding.TEXT, part.text.encode(errors="surrogatepass"), "text/plain"
        part = part.model_copy(update={"text": None})
    elif part.file_data:
        holding, content = Holding.LINK, None
        mime_type = None if is_artifact_ref(part) else part.file_data.mime_type
    else:
        raise InputValidationError(
            "An artifact is text, inline_data or file_data; this part is none of them."
        )
    shell = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    metadata_text = scopes.dumps(scopes.canonicalize(metadata or {}).data)
    return VersionMetadata(
        holding, json.dumps(shell), mime_type, metadata_text, (session_id or "").strip()
    ), content


def _join_part(artifact: Artifact, content: bytes) -> types.Part:
    part = types.Part.model_validate(json.loads(artifact.part))
    if artifact.holding == Holding.TEXT:
        part.text = content.decode(errors="surrogatepass")
    elif artifact.holding == Holding.DATA and part.inline_data:
        part.inline_data.data = content
    return part


def _describe_version(key: FileKey, artifact: Artifact) -> ArtifactVersion:
    return ArtifactVersion(
        version=artifact.version,
        canonical_uri=get_artifact_uri(
            app_name=key.app_name,
            user_id=key.user_id,
            filename=key.name,
            version=artifact.version,
            session_id=key.session_id or None,
        ),
        custom_metadata=json.loads(artifact.custom_metadata),
        create_time=artifact.created_at,
        mime_type=artifact.mime_type,
    )
