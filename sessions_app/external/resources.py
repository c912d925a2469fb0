"""Artifacts and memory owned by another service or a remote server, read by ADK's API of the app's process.

ADK's artifact services list the files of one session and its user; its memory services can be searched, but not listed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.paths import upstream_artifact_path, upstream_path
from sessions_app.runs.runtime_client import provider
from sessions_app.store import redaction
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.events.timestamps import parse_timestamp

MAX_FILES = 100
MAX_VERSIONS = 50
AT_ONCE = 8
"""Files whose versions are requested concurrently: cloud services respond slowly."""

TEXT_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A version of a file, as its service describes it."""

    number: int
    mime: str = ""
    saved_at: float | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """An artifact: its versions, newest first, at most `MAX_VERSIONS`, or the problem of reading them."""

    name: str
    versions: tuple[FileVersion, ...] = ()
    count: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A memory entry as an agent gets it."""

    author: str
    told_time: str
    text: str
    is_cut: bool
    others: int
    metadata: Any


async def list_artifacts(app: str, user: str, session: str) -> tuple[list[ExternalFile], int]:
    """Return the artifacts of a session and its user, at most `MAX_FILES`, and their number.

    Raises:
        BadInput: the service rejects the request, or the ids do not fit its paths.
        RuntimeUnavailable: the app's process or server is not reachable.
    """
    names = await _send_request(app, f"{upstream_path(app, user, session)}/artifacts")
    if not isinstance(names, list):
        raise _unexpected_answer(app)
    sorted_names = sorted(str(name) for name in names)
    turns = asyncio.Semaphore(AT_ONCE)

    async def read_in_turn(name: str) -> ExternalFile:
        async with turns:
            return await _read_file(app, user, session, name)

    return await asyncio.gather(*map(read_in_turn, sorted_names[:MAX_FILES])), len(sorted_names)


async def read_content(app: str, user: str, session: str, name: str, version: int) -> bytes:
    """Return the content of a version of an artifact.

    Raises:
        NotFound: there is no such version, or it is only a link.
        BadInput: the service rejects the request.
        RuntimeUnavailable: the app's process or server is not reachable.
    """
    part = await _send_request(app, f"{upstream_artifact_path(app, user, session, name)}/versions/{version}")
    if not isinstance(part, Mapping):
        raise _unexpected_answer(app)
    if isinstance(text := part.get("text"), str):
        return text.encode(errors="replace")
    inline = part.get("inlineData", part.get("inline_data"))
    data = inline.get("data") if isinstance(inline, Mapping) else None
    if not isinstance(data, str):
        raise NotFound(f"The artifact {name!r} in version {version} holds no content: it is a link.")
    try:
        plain = data.replace("-", "+").replace("_", "/")
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotFound(f"The content of {name!r} in version {version} is not base64.") from error


async def recall(app: str, user: str, query: str) -> list[RecalledMemory]:
    """Search a user's memory as an agent would.

    Raises:
        BadInput: the service fails, or a remote server is not reachable.
        RuntimeUnavailable: the app's process is not reachable.
    """
    client = await provider().client(app)
    response = await client.call("POST", "/devui/memory/search", {"user_id": user, "query": query})
    return [_parse_memory(entry) for entry in response["memories"]]


async def add_to_memory(app: str, user: str, session: str) -> None:
    """Have the app's process add a session to the memory of its user.

    Raises:
        NotFound: there is no such session.
        BadInput: the server refuses it, or the ids do not fit its paths.
        RuntimeUnavailable: the app's process is not reachable.
    """
    path = f"{upstream_path(app, user).removesuffix('/sessions')}/memory"
    await _send_request(app, path, "PATCH", {"session_id": session})


async def _read_file(app: str, user: str, session: str, name: str) -> ExternalFile:
    path = upstream_artifact_path(app, user, session, name)
    try:
        versions_json = await _send_request(app, f"{path}/versions/metadata")
    except (BadInput, NotFound):  # not every language's server has the metadata
        try:
            versions_json = await _send_request(app, f"{path}/versions")
        except (BadInput, NotFound) as error:
            return ExternalFile(name, problem=error.message)
    parsed = (
        [_parse_version(version_json) for version_json in versions_json]
        if isinstance(versions_json, list)
        else []
    )
    versions = sorted(
        (version_json for version_json in parsed if version_json),
        key=lambda version_json: version_json.number,
        reverse=True,
    )
    return ExternalFile(name, tuple(versions[:MAX_VERSIONS]), len(versions))


def _parse_version(entry: Any) -> FileVersion | None:
    if isinstance(entry, int):
        return FileVersion(entry)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("version"), int):
        return None
    try:
        saved_at = parse_timestamp(entry.get("createTime", entry.get("create_time")))
    except ValueError:
        saved_at = None
    mime, location = (
        entry.get("mimeType", entry.get("mime_type")),
        entry.get("canonicalUri", entry.get("canonical_uri")),
    )
    return FileVersion(entry["version"], str(mime or ""), saved_at, str(location or ""))


def _parse_memory(entry: Mapping[str, Any]) -> RecalledMemory:
    parts = [part for part in (entry.get("content") or {}).get("parts") or [] if isinstance(part, dict)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    text = "\n".join(texts)
    return RecalledMemory(
        author=str(entry.get("author") or ""),
        told_time=str(entry.get("timestamp") or ""),
        text=text[:TEXT_SHOWN],
        is_cut=len(text) > TEXT_SHOWN,
        others=len(parts) - len(texts),
        metadata=redaction.redact(entry.get("custom_metadata") or {}),
    )


async def _send_request(app: str, path: str, method: str = "GET", body: Any = None) -> Any:
    client = await provider().client(app)
    content = b"" if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    async with client.open(method, path, headers=headers, content=content) as response:
        received = await response.aread()
    try:
        parsed = await asyncio.to_thread(json.loads, received)
    except (ValueError, RecursionError) as error:
        raise _unexpected_answer(app) from error
    if response.is_success:
        return parsed
    detail = str(parsed.get("detail") if isinstance(parsed, dict) else parsed)
    error_class = NotFound if response.status_code == NotFound.status else BadInput
    raise error_class(detail, hint="The server that runs the app answered this.")


def _unexpected_answer(app: str) -> BadInput:
    return BadInput(f"What runs {app!r} answers nothing that ADK's servers do.", hint="Its log may say more.")
