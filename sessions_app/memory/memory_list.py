"""Read models of the memory pages: entries, with the sessions and events they come from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from sessions_app.artifacts import artifact_list
from sessions_app.store import realms, redaction
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, Event, MemoryEntry
from sessions_app.store.session_key import SessionKey

MAX_TEXT = 2_000
"""Characters of an entry that a page shows."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """An entry as a page shows it.

    Attributes:
        whole_text: its text.
        others: number of its parts without text, such as images.
        session: the session it comes from, if it still exists.
        seq: its event in that session.
    """

    entry: MemoryEntry
    whole_text: str
    others: int
    metadata: Any
    session: AgentSession | None
    seq: int | None

    @property
    def text(self) -> str:
        """The start of its text."""
        return self.whole_text[:MAX_TEXT]

    @property
    def is_cut(self) -> bool:
        """Tell whether `text` leaves something out."""
        return len(self.whole_text) > MAX_TEXT


def filter_entries(realm: str, app: str = "", user: str = "", session: str = "") -> QuerySet[MemoryEntry]:
    """Return the entries of an app, a user, a session (empty: all), without removed entries."""
    if realm.startswith(realms.HIDDEN):
        return MemoryEntry.objects.none()
    filters = {"app_name": app, "user_id": user, "session_id": session}
    filters = {name: value for name, value in filters.items() if value}
    return MemoryEntry.objects.filter(realm=realm, removed=False, **filters).defer("words", "private")


def find_removable_entry(pk: int) -> MemoryEntry:
    """Return an entry that can be removed.

    Raises:
        NotFound: there is no such entry.
        BadInput: the entry belongs to an eval attempt.
    """
    entry = MemoryEntry.objects.filter(pk=pk, removed=False).defer("words", "private").first()
    if entry is None or entry.realm.startswith(realms.HIDDEN):
        raise NotFound(
            f"There is no memory {pk}.", hint="It may have been deleted. The list shows all entries."
        )
    if entry.realm.startswith(realms.ATTEMPT):
        raise BadInput("The memory of an eval attempt is read-only.", hint="Use a session outside of evals.")
    return entry


def build_rows(rows: Sequence[MemoryEntry]) -> list[MemoryRow]:
    """Return entries as page rows. Takes at most two queries."""
    keys = {row.pk: SessionKey(row.realm, row.app_name, row.user_id, row.session_id) for row in rows}
    sessions = artifact_list.fetch_sessions_by_key(keys.values())
    seqs = _event_seqs(sessions.values(), [row.entry_id for row in rows])
    return [_build_row(row, sessions.get(keys[row.pk]), seqs) for row in rows]


def _event_seqs(sessions: Iterable[AgentSession], event_ids: list[str]) -> dict[tuple[int, str], int]:
    pks = [session.pk for session in sessions]
    if not pks:
        return {}
    rows = Event.objects.filter(session_id__in=pks, event_id__in=event_ids)
    return {(pk, event_id): seq for pk, event_id, seq in rows.values_list("session_id", "event_id", "seq")}


def _build_row(row: MemoryEntry, session: AgentSession | None, seqs: dict[tuple[int, str], int]) -> MemoryRow:
    content = json.loads(row.content)
    parts = [part for part in content.get("parts") or [] if isinstance(part, dict)]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return MemoryRow(
        entry=row,
        whole_text="\n".join(texts),
        others=len(parts) - len(texts),
        metadata=redaction.redact(json.loads(row.custom_metadata)),
        session=session,
        seq=seqs.get((session.pk, row.entry_id)) if session else None,
    )
