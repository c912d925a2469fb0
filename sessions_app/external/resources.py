"""Artifacts and memory that another service keeps, or a remote server: asked of what runs the app, by ADK's interface.

ADK's artifact services list the files of one session, with those of its user; its memory services are searched, and
cannot be listed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app import redaction
from sessions_app.errors import BadInput, NotFound
from sessions_app.events.timestamps import parse_timestamp
from sessions_app.paths import upstream_artifact_path
from sessions_app.runs.runtime_client import provider

MOST_FILES = 100
MOST_VERSIONS = 50
AT_ONCE = 8
"""Files whose versions are asked for side by side: services in a cloud take long for each."""

TEXT_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A version of a file, as far as its service tells."""

    number: int
    mime: str = ""
    saved_at: float | None = None
    place: str = ""


@dataclass(frozen=True, slots=True)
class ExternalFile:
    """An artifact: its versions newest first, at most `MOST_VERSIONS`; why they cannot be told."""

    name: str
    versions: tuple[FileVersion, ...] = ()
    count: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RecalledMemory:
    """A piece of memory as an agent would be given it."""

    author: str
    told_time: str
    text: str
    is_cut: bool
    others: int
    metadata: Any


async def list_artifacts(app: str, user: str, session: str) -> tuple[list[ExternalFile], int]:
    """Return the artifacts of a session and its user, at most `MOST_FILES`, and how many there are.

    Raises:
        BadInput: the service refuses, or its paths cannot hold the ids.
        RuntimeUnavailable: what runs the app cannot be asked.
    """
    names = await _request(app, upstream_artifact_path(app, user, session))
    if not isinstance(names, list):
        raise _unexpected_answer(app)
    known = sorted(str(name) for name in names)
    turns = asyncio.Semaphore(AT_ONCE)

    async def told(name: str) -> ExternalFile:
        async with turns:
            return await _read_file(app, user, session, name)

    return await asyncio.gather(*map(told, known[:MOST_FILES])), len(known)


async def read_content(app: str, user: str, session: str, name: str, version: int) -> bytes:
    """Return what a version of an artifact holds.

    Raises:
        NotFound: there is no such version, or it only links elsewhere.
        BadInput: its service refuses.
        RuntimeUnavailable: what runs the app cannot be asked.
    """
    part = await _request(app, f"{upstream_artifact_path(app, user, session, name)}/versions/{version}")
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
    """Return what an agent would be given of a user's memory.

    Raises:
        BadInput: the service fails, or a remote server cannot be asked.
        RuntimeUnavailable: what runs the app cannot be asked.
    """
    client = await provider().client(app)
    told = await client.call("POST", "/devui/memory/search", {"user_id": user, "query": query})
    return [_parse_memory(entry) for entry in told["memories"]]


async def _read_file(app: str, user: str, session: str, name: str) -> ExternalFile:
    path = upstream_artifact_path(app, user, session, name)
    try:
        told = await _request(app, f"{path}/versions/metadata")
    except (BadInput, NotFound):  # not every language tells more than the numbers
        try:
            told = await _request(app, f"{path}/versions")
        except (BadInput, NotFound) as error:
            return ExternalFile(name, problem=error.message)
    found = [_parse_version(each) for each in told] if isinstance(told, list) else []
    versions = sorted((each for each in found if each), key=lambda each: each.number, reverse=True)
    return ExternalFile(name, tuple(versions[:MOST_VERSIONS]), len(versions))


def _parse_version(told: Any) -> FileVersion | None:
    if isinstance(told, int):
        return FileVersion(told)
    if not isinstance(told, Mapping) or not isinstance(told.get("version"), int):
        return None
    try:
        saved_at = parse_timestamp(told.get("createTime", told.get("create_time")))
    except ValueError:
        saved_at = None
    mime, place = (
        told.get("mimeType", told.get("mime_type")),
        told.get("canonicalUri", told.get("canonical_uri")),
    )
    return FileVersion(told["version"], str(mime or ""), saved_at, str(place or ""))


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


async def _request(app: str, path: str) -> Any:
    client = await provider().client(app)
    async with client.open("GET", path, headers={}, content=b"") as answer:
        body = await answer.aread()
    try:
        told = await asyncio.to_thread(json.loads, body)
    except (ValueError, RecursionError) as error:
        raise _unexpected_answer(app) from error
    if answer.is_success:
        return told
    said = str(told.get("detail") if isinstance(told, dict) else told)
    refused = NotFound if answer.status_code == NotFound.status else BadInput
    raise refused(said, hint="The server that runs the app answered this.")


def _unexpected_answer(app: str) -> BadInput:
    return BadInput(f"What runs {app!r} answers nothing that ADK's servers do.", hint="Its log may say more.")
