"""Imports in short transactions: agents run meanwhile, and the next import completes an interrupted one."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.store.database import batched_transactions
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
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history
from sessions_app.transfer.exports import ExportFilter, export_json
from sessions_app.transfer.writers import ImportReport, import_location
from tests.importers.own_store import empty_store, ledger_matches_state
from tests.sessions.branches.interleaving import act_between_transactions, run_in_other_thread
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")


class Killed(BaseException):
    """The process ends in the middle."""


def document(path: Path, *deltas: dict[str, Any], state: dict[str, Any], session: str = "s1") -> Path:
    """Save a session as ADK's REST answers it: an event for each delta, and a state that may be another one."""
    events = [
        {"id": f"e{number}", "author": "agent", "timestamp": float(number), "actions": {"stateDelta": delta}}
        for number, delta in enumerate(deltas, start=1)
    ]
    session_json = {"id": session, "appName": "weather", "userId": "ann", "state": state, "events": events}
    path.write_text(json.dumps(session_json))
    return path


def keys(count: int, value: Any = 1, prefix: str = "") -> dict[str, Any]:
    return {f"{prefix}k{number}": value for number in range(count)}


def test_event_with_many_keys_needs_as_many_queries_as_with_few(tmp_path: Path):
    def statements(session: str, count: int) -> int:
        delta = keys(count)
        path = document(tmp_path / f"{session}.json", delta, state=delta, session=session)
        with CaptureQueriesContext(connection) as queries:
            import_location(str(path))
        assert SessionState.objects.filter(owner__session_id=session).count() == count
        return len(queries)

    assert statements("s1", 3) == statements("s2", 900)


def test_transaction_takes_fewer_events_if_they_write_many_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stored = [0]
    monkeypatch.setattr(
        batched_transactions, "yield_writer", lambda seconds: stored.append(Event.objects.count())
    )
    deltas = [keys(900, number) for number in range(12)]
    report = import_location(str(document(tmp_path / "s.json", *deltas, state=deltas[-1])))
    assert report.is_complete
    assert max(now - before for before, now in pairwise(stored)) == 3
    assert ledger_matches_state()


def differing(tmp_path: Path) -> Path:
    """Save a session whose state is in every scope other than its events say, in more keys than a slice takes."""
    differences: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for prefix in ("", "user:", "app:"):
        differences |= keys(10, "said", prefix)
        expected |= keys(4, "said", prefix)  # four as said, five others, one removed, seven unexplained
        expected |= {f"{prefix}k{number}": "other" for number in range(4, 9)}
        expected |= {f"{prefix}new{number}": number for number in range(7)}
    return document(
        tmp_path / "s.json", differences, keys(3, "again"), state={**expected, **keys(3, "again")}
    )


def everything() -> list[Any]:
    """Return what the store says, apart from primary keys and the number of transactions it came in."""
    ledger = StateChange.objects.order_by("scope", "key_id", "position", "id")
    return [
        [(row.scope, row.key, row.value, row.removed, row.seq, row.cause) for row in ledger],
        *(sorted(table.objects.values_list("key", "value")) for table in (SessionState, UserState, AppState)),
        list(AgentSession.objects.values_list("session_id", "last_seq", "revision", "updated_at")),
    ]


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_killed_import_is_completed_by_the_next_at_any_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
):
    path = differing(tmp_path)
    transactions = act_between_transactions(monkeypatch, lambda number: None)
    import_location(str(path))
    whole, last = everything(), len(transactions)
    assert last > 15

    for at in range(0, last, step):
        empty_store()

        def kill(number: int, at: int = at) -> None:
            if number == at:
                raise Killed

        act_between_transactions(monkeypatch, kill)
        with pytest.raises(Killed):
            import_location(str(path))
        act_between_transactions(monkeypatch, lambda number: None)
        assert import_location(str(path)).is_complete
        assert everything() == whole
        assert ledger_matches_state()


def test_agents_append_between_the_transactions_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    other = Story("other", app="news")
    messages: list[int] = []

    def append() -> None:
        messages.append(other.says("hi", delta={"n": len(messages)}))

    transactions = act_between_transactions(monkeypatch, lambda number: run_in_other_thread(append))
    assert import_location(str(differing(tmp_path))).is_complete
    assert len(messages) == len(transactions) > 15
    assert ledger_matches_state()


def run_with(monkeypatch: pytest.MonkeyPatch, path: Path, at: int, act: Callable[[], object]) -> ImportReport:
    """Import while somebody does something before the transaction of a number."""
    act_between_transactions(monkeypatch, lambda number: run_in_other_thread(act) if number == at else None)
    return import_location(str(path))


def test_concurrent_writes_during_import_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = differing(tmp_path)
    last = len(act_between_transactions(monkeypatch, lambda number: None)) or _transactions_of(
        path, monkeypatch
    )
    key = writes.SessionKey("", "weather", "ann", "s1")
    for at in range(2, last, 3):
        empty_store()

        def write() -> None:
            delta = {"k4": "mine", "user:k4": "mine", "app:k4": "mine", "app:new6": "mine", "new6": "mine"}
            writes.edit_state(key, delta)

        report = run_with(monkeypatch, path, at, write)
        session = AgentSession.objects.get()
        now = history.state_at(session).merge_scopes()
        assert {now[name] for name in ("k4", "user:k4", "app:k4", "app:new6", "new6")} == {"mine"}
        assert ledger_matches_state()
        assert report.conflicts or at > last - 4


def _transactions_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    transactions = act_between_transactions(monkeypatch, lambda number: None)
    import_location(str(path))
    return len(transactions)


def test_a_seed_of_a_key_that_events_wrote_leaves_its_last_writer_alone(tmp_path: Path):
    story = Story(initial={"a": 1, "b": 1, "user:u": 1, "app:p": 1})
    story.says("x", delta={"a": 2, "user:u": 2, "app:p": 2})
    ledger = [
        (row.scope, row.key, row.value, row.seq) for row in StateChange.objects.order_by("scope", "key", "pk")
    ]
    export_json(ExportFilter(), tmp_path / "all.jsonl")
    empty_store()
    assert import_location(str(tmp_path / "all.jsonl")).is_complete
    rows = StateChange.objects.order_by("scope", "key", "position")
    assert [(row.scope, row.key, row.value, row.seq) for row in rows] == ledger
    session = AgentSession.objects.get()
    for scope, key in ((Scope.SESSION, "a"), (Scope.USER, "u"), (Scope.APP, "p")):
        last_change = history.change_at(session, None, scope, key)
        assert last_change is not None
        assert last_change.event_id == "e1"
    assert (UserScope.objects.get().version, AppScope.objects.get().version) == (1, 1)
