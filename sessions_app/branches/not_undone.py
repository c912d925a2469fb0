"""Effects that a rewind does not undo: shared state, memory, and side effects of tools."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice

from django.db.models import Min, Q, QuerySet, Subquery

from sessions_app.branches.rewind_plan import CountedList, RecallableEntry, SharedKey, StoredValue, ToolEffect
from sessions_app.store import scopes
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.models import (
    AgentSession,
    AppState,
    Event,
    MemoryEntry,
    Scope,
    StateChange,
    UserState,
)
from sessions_app.store.short_texts import truncate
from sessions_app.store.state import history

MAX_LISTED = 50
"""Maximum number of entries per list of a plan; the count covers all."""

PREVIEW_LENGTH = 200
"""Maximum length of a text in a plan, in characters."""

WITHOUT_EFFECT = ("adk_request_", "transfer_to_agent", "set_model_response", "exit_loop")
"""Name prefixes of calls that ADK makes itself or that only control agents."""


def shared_since(session: AgentSession, first: Event) -> CountedList[SharedKey]:
    """Return the shared keys written by the session's events from `first` on."""
    changes = StateChange.objects.filter(
        session=session, seq__gte=first.seq, scope__in=(Scope.USER, Scope.APP)
    )
    # Appends to a session are serialized, so the lowest primary key of a key is its first write.
    keys = changes.values("scope", "owner_id", "key_id").annotate(first=Min("pk"))
    earlier = history.earlier_writes()
    pks = [row["first"] for row in keys.order_by("scope", "key_id")]
    rows = StateChange.objects.filter(pk__in=pks[:MAX_LISTED]).annotate(
        before=Subquery(earlier.values("value")[:1]), before_private=Subquery(earlier.values("private")[:1])
    )
    now = _current_shared_values(rows)
    keys_shown = [
        SharedKey(
            scope=row.scope,
            key=row.key,
            name=scopes.PREFIX[Scope(row.scope)] + row.key,
            before=None if row.before is None else StoredValue(row.before, row.before_private),
            now=now.get((row.scope, row.owner_id, row.key_id)),
        )
        for row in sorted(rows, key=lambda row: (row.scope, row.key))
    ]
    return CountedList(keys_shown, len(pks))


def memory_since(session: AgentSession, first: Event) -> CountedList[RecallableEntry]:
    """Return the user's memory entries added since `first`, from this session or an unnamed one."""
    rows = MemoryEntry.objects.filter(
        Q(session_id=session.session_id) | Q(session_id=""),
        realm=session.realm,
        app_name=session.app_name,
        user_id=session.user_id,
        removed=False,
        timestamp__gte=first.timestamp,
    ).defer("words", "private")
    entries = [
        RecallableEntry(row.pk, row.entry_id, row.timestamp, _entry_text(row.content))
        for row in rows.order_by("timestamp", "pk")[:MAX_LISTED]
    ]
    return CountedList(entries, rows.count())


def effects(since: QuerySet[Event]) -> CountedList[ToolEffect]:
    """Return the tool calls in some events of a session."""
    calls = since.filter(HAS_CALLS).order_by("seq").values_list("seq", "event_id", "summary")
    tool_effects = (
        ToolEffect(seq, event_id, call["name"], call["args"])
        for seq, event_id, summary in calls.iterator(history.CHUNK)
        for call in json.loads(summary).get("calls", [])
        if not call["name"].startswith(WITHOUT_EFFECT)
    )
    first = list(islice(tool_effects, MAX_LISTED))
    return CountedList(first, len(first) + sum(1 for _ in tool_effects))


def _current_shared_values(rows: Iterable[StateChange]) -> dict[tuple[str, int, str], StoredValue]:
    """Return the current values of shared keys."""
    values = {}
    for scope, table in ((Scope.USER, UserState), (Scope.APP, AppState)):
        scope_rows = [row for row in rows if row.scope == scope]
        if scope_rows:
            keys = table.objects.filter(
                owner_id=scope_rows[0].owner_id, key_id__in=[row.key_id for row in scope_rows]
            )
            for key in keys:
                values[str(scope), key.owner_id, key.key_id] = StoredValue(key.value, key.private, key.note)
    return values


def _entry_text(content: str) -> str:
    parts = json.loads(content).get("parts") or []
    text = " ".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
    return truncate(text, PREVIEW_LENGTH)
