"""Builders of artifacts."""

from __future__ import annotations

from typing import Any

from google.genai import types

USER = {"app_name": "office", "user_id": "ann"}
SESSION = {**USER, "session_id": "s1"}


def text(words: str = "hello") -> types.Part:
    """Return a text as an artifact."""
    return types.Part(text=words)


def data(content: bytes = b"\x89PNG", mime_type: str = "image/png", **fields: Any) -> types.Part:
    """Return bytes as an artifact."""
    return types.Part(inline_data=types.Blob(data=content, mime_type=mime_type, **fields))


def link(uri: str, mime_type: str | None = None) -> types.Part:
    """Return a URI as an artifact."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


def large(fill: bytes = b"a") -> types.Part:
    """Return an artifact that is too large for a row."""
    return data(fill * 100_000, "application/octet-stream")
