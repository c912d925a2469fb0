"""Builders of sessions, events and searches of memory."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

OWNER = {"app_name": "office", "user_id": "ann"}


def event(text: str | None, **fields: Any) -> Event:
    """Return an event in which somebody says `text`."""
    parts = [types.Part(text=text)] if text is not None else []
    content = types.Content(role="user", parts=parts)
    return Event(**{"author": "user", "invocation_id": "i", "content": content, **fields})


def session(*texts: str, session_id: str = "s1", **owner: str) -> Session:
    """Return a session in which the texts were said; the n-th has the id `<session>-<n>`."""
    events = [event(text, id=f"{session_id}-{n}", timestamp=1000.0 + n) for n, text in enumerate(texts)]
    return Session(**{**OWNER, **owner, "id": session_id}, events=events)


def entry(text: str, **fields: Any) -> MemoryEntry:
    """Return a memory of its own."""
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


async def recall_texts(service: BaseMemoryService, query: str, **owner: str) -> list[str]:
    """Return the texts that a search finds, best first."""
    response = await service.search_memory(**{**OWNER, **owner}, query=query)
    return ["\n".join(part.text or "" for part in memory.content.parts or []) for memory in response.memories]
