"""`DjangoMemoryService`: ADK's memory in DevUI's store."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from typing_extensions import override

from sessions_app.adk import adk_errors, event_mapping
from sessions_app.store import memory_entries, scopes
from sessions_app.store import models as store
from sessions_app.store.database import units_of_work
from sessions_app.store.memory_entries import MemoryOwner, NewEntry
from sessions_app.store.models import MemoryEntry as Row

BATCH = 200
"""Events added per transaction: limits how long adding a long session blocks appends."""


class DjangoMemoryService(BaseMemoryService):
    """ADK's memory service over DevUI's store, for any `Runner`, inside or outside the server.

    Stores events with text, each once, however often its session is added. A search returns entries that share words
    with the query, in any script; rare words rank highest. Thoughts are not searched.

    Args:
        realm: isolated namespace to work in; empty: none. A service sees only its own realm.
    """

    def __init__(self, realm: str = "") -> None:
        self.realm = realm

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session that are not in memory yet."""
        await self._add_entries(
            self._make_owner(session.app_name, session.user_id), session.id, session.events, None
        )

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add the events that are not in memory yet; a search returns the metadata with each.

        Raises:
            InputValidationError: an id cannot be stored.
        """
        await self._add_entries(
            self._make_owner(app_name, user_id), session_id or "", events, custom_metadata
        )

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add entries. An entry replaces an existing one with the same id.

        Raises:
            InputValidationError: an id cannot be stored.
        """
        owner = self._make_owner(app_name, user_id)
        with adk_errors.translate_errors():
            await units_of_work.write(
                memory_entries.replace_entries,
                owner,
                [_draft_from_entry(entry, custom_metadata) for entry in memories],
            )

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return at most ten memories of the user that share words with the query, best first."""
        rows_found = await units_of_work.read(
            memory_entries.search, self._make_owner(app_name, user_id), query, memory_entries.MAX_RESULTS
        )
        return SearchMemoryResponse(memories=[_make_entry(row) for row in rows_found])

    @override
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory permanently: adding its session again does not restore it. A missing one is not an error."""
        if memory_id:
            owner = self._make_owner(app_name, user_id)
            with adk_errors.translate_errors():
                await units_of_work.write(memory_entries.remove_entry, owner, memory_id)

    def _make_owner(self, app_name: str, user_id: str) -> MemoryOwner:
        with adk_errors.translate_errors():
            return memory_entries.make_owner(self.realm, app_name, user_id)

    async def _add_entries(
        self,
        owner: MemoryOwner,
        session_id: str,
        events: Iterable[Event],
        metadata: Mapping[str, object] | None,
    ) -> None:
        events_with_text = [event for event in events if _content_text(event.content)]
        with adk_errors.translate_errors():
            known_ids = await units_of_work.read(memory_entries.known_ids, owner, session_id)
            new_events = [event for event in events_with_text if event.id not in known_ids]
            for start in range(0, len(new_events), BATCH):
                drafts = [_draft_from_event(event, metadata) for event in new_events[start : start + BATCH]]
                await units_of_work.write(memory_entries.add_entries, owner, session_id, drafts)


def remember(session: store.AgentSession) -> int:
    """Add a stored session to its user's memory, as `add_session_to_memory` does; return the number of new entries.

    Reads the session page by page, since it may be too long to load at once.
    """
    owner = memory_entries.make_owner(session.realm, session.app_name, session.user_id)
    before = len(memory_entries.known_ids(owner, session.session_id))
    seq = 0
    while page := _read_event_page(session.pk, seq):
        events_with_text = [event for _, event in page if _content_text(event.content)]
        memory_entries.add_entries(
            owner, session.session_id, [_draft_from_event(event, None) for event in events_with_text]
        )
        seq = page[-1][0]
    return len(memory_entries.known_ids(owner, session.session_id)) - before


def _read_event_page(session_pk: int, after: int) -> list[tuple[int, Event]]:
    events = store.Event.objects.filter(session_id=session_pk, seq__gt=after).order_by("seq")[:BATCH]
    return [
        (row.seq, event_mapping.from_row(row.data, row.private, row.event_id, row.invocation_id))
        for row in events
    ]


def _content_text(content: types.Content | None) -> str:
    parts = (content and content.parts) or []
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def _draft_from_event(event: Event, metadata: Mapping[str, object] | None) -> NewEntry:
    return NewEntry(
        entry_id=event.id,
        author=event.author or "",
        timestamp=event.timestamp,
        content=_canonical_content(event.content),
        text=_content_text(event.content),
        custom_metadata=_metadata_json(metadata),
    )


def _draft_from_entry(entry: MemoryEntry, metadata: Mapping[str, object] | None) -> NewEntry:
    return NewEntry(
        entry_id=entry.id or str(uuid.uuid4()),
        author=entry.author or "",
        timestamp=time.time(),
        content=_canonical_content(entry.content),
        text=_content_text(entry.content),
        told_time=entry.timestamp or "",
        custom_metadata=_metadata_json({**(metadata or {}), **entry.custom_metadata}),
    )


def _canonical_content(content: types.Content | None) -> scopes.CanonicalValue:
    return scopes.canonicalize(content.model_dump(by_alias=True, exclude_none=True) if content else {})


def _metadata_json(metadata: Mapping[str, object] | None) -> str:
    return scopes.dumps(scopes.canonicalize(dict(metadata or {})).data)


def _make_entry(row: Row) -> MemoryEntry:
    return MemoryEntry(
        id=row.entry_id,
        content=types.Content.model_validate_json(row.private or row.content),
        author=row.author or None,
        timestamp=row.told_time or _timestamp_text(row.timestamp),
        custom_metadata=json.loads(row.custom_metadata),
    )


def _timestamp_text(timestamp: float) -> str | None:
    """Format a time as ADK does for the model: local, without a time zone (`google/adk/memory/_utils.py`)."""
    try:
        return datetime.fromtimestamp(timestamp).isoformat()
    except (ValueError, OverflowError, OSError):
        return None
