"""Integrity checks of a store after a fault."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    AppState,
    Event,
    Scope,
    SessionState,
    StateChange,
    UserScope,
    UserState,
)

TABLES = {Scope.SESSION: SessionState, Scope.USER: UserState, Scope.APP: AppState}


def assert_intact() -> None:
    """Check that `seq` has no holes, the ledger says what the events say, and the state is what both come to."""
    for session in AgentSession.objects.all():
        rows = list(
            Event.objects.filter(session=session).order_by("seq").values_list("seq", "event_id", "data")
        )
        assert [seq for seq, _, _ in rows] == list(range(1, session.last_seq + 1))
        assert session.revision == session.last_seq
        deltas = {seq: _by_scope(json.loads(data)["actions"].get("stateDelta", {})) for seq, _, data in rows}
        assert _ledger_writes(session) == {seq: delta for seq, delta in deltas.items() if delta}
    assert _state() == _fold()
    for scope, owners in ((Scope.USER, UserScope), (Scope.APP, AppScope)):
        for owner in owners.objects.all():
            positions = StateChange.objects.filter(scope=scope, owner_id=owner.pk).values_list(
                "position", flat=True
            )
            assert sorted(set(positions)) == list(range(1, owner.version + 1))


def _by_scope(delta: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(str(scope), key): value for scope, key, value in scopes.split_delta(delta).sorted_keys()}


def _ledger_writes(session: AgentSession) -> dict[int, dict[tuple[str, str], Any]]:
    """Return what the ledger says each event of a session wrote."""
    writes: dict[int, dict[tuple[str, str], Any]] = defaultdict(dict)
    for row in StateChange.objects.filter(session=session, seq__gt=0):
        writes[row.seq][row.scope, row.key] = json.loads(row.value or "null")
    return dict(writes)


def _fold() -> dict[tuple[str, int, str], tuple[Any, int]]:
    """Return what the ledger comes to: the last value of every key, with its position."""
    rows = StateChange.objects.order_by("scope", "owner_id", "position", "pk")
    last = {(row.scope, row.owner_id, row.key): row for row in rows}
    return {key: (row.value, row.position) for key, row in last.items() if not row.removed}


def _state() -> dict[tuple[str, int, str], tuple[Any, int]]:
    return {
        (str(scope), row.owner_id, row.key): (row.value, row.position)
        for scope, table in TABLES.items()
        for row in table.objects.all()
    }
