"""Any sequence of calls has the result of ADK's in-memory service, and the ledger agrees."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sessions_app.adk import DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Scope, StateChange
from sessions_app.store.state import history as history
from tests.sessions.build import event
from tests.sessions.strategies import json_values

users = st.sampled_from(["ann", "bob"])
ids = st.sampled_from(["s1", "s2"])
keys = st.sampled_from(["a", "b", "user:a", "user:user:a", "app:a", "app:", "temp:a", "APP:a"])
deltas = st.dictionaries(keys, json_values, max_size=4)


class Sessions(RuleBasedStateMachine):
    """Both services, told to do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.app = uuid.uuid4().hex
        self.ours, self.adks = DjangoSessionService(), InMemorySessionService()
        self.loop = asyncio.new_event_loop()
        self.clock = itertools.count(2_000_000_000)
        self.states: dict[str, dict[str, Any]] = {}

    def teardown(self) -> None:
        self.loop.close()

    def both(self, method: str, **fields: Any) -> tuple[Any, Any]:
        """Call a method of both services; an exception is an outcome, known by its type."""
        return self.outcome(self.ours, method, fields), self.outcome(self.adks, method, fields)

    def outcome(self, service: Any, method: str, value: dict[str, Any]) -> Any:
        try:
            return self.loop.run_until_complete(getattr(service, method)(app_name=self.app, **value))
        except Exception as error:
            return type(error)

    @rule(user_id=users, session_id=ids, state=st.none() | deltas)
    def create(self, **fields: Any) -> None:
        ours, adks = self.both("create_session", **fields)
        assert comparable(ours) == comparable(adks)

    @rule(user_id=users, session_id=ids, delta=deltas, data=st.data())
    def append(self, user_id: str, session_id: str, delta: dict[str, Any], data: st.DataObject) -> None:
        ours, adks = self.both("get_session", user_id=user_id, session_id=session_id)
        assert comparable(ours) == comparable(adks)
        if adks is None:
            return
        new_event = event(delta=delta, timestamp=float(next(self.clock)))
        for service, session in ((self.ours, ours), (self.adks, adks)):
            self.loop.run_until_complete(service.append_event(session, new_event.model_copy(deep=True)))
        assert ours.state == adks.state
        again = self.outcome(self.adks, "get_session", {"user_id": user_id, "session_id": session_id})
        self.states[new_event.id] = again.state

    @rule(user_id=users, session_id=ids)
    def delete(self, **fields: Any) -> None:
        assert self.both("delete_session", **fields) == (None, None)

    @invariant()
    def the_services_agree(self) -> None:
        ours, adks = self.both("list_sessions")
        assert [comparable(session) for session in ours.sessions] == [
            comparable(session) for session in adks.sessions
        ]
        for user_id in ("ann", "bob"):
            state, expected = self.both("get_user_state", user_id=user_id)
            assert state == expected
            for session_id in ("s1", "s2"):
                result, same = self.both("get_session", user_id=user_id, session_id=session_id)
                assert comparable(result) == comparable(same)

    @invariant()
    def the_ledger_tells_the_same(self) -> None:
        sessions = self.loop.run_until_complete(self.adks.list_sessions(app_name=self.app)).sessions
        states = {(session.user_id, session.id): session.state for session in sessions}
        self.loop.run_until_complete(units_of_work.read(self.check_ledger, states))

    def check_ledger(self, states: dict[tuple[str, str], dict[str, Any]]) -> None:
        for session in AgentSession.objects.filter(app_name=self.app):
            now = history.state_at(session)
            assert now.merge_scopes() == states[session.user_id, session.session_id]
            for scope, owner in history.owners_at(session).ids.items():
                assert now.values(scope) == fold(scope, owner)
            for row in session.events.all():
                assert history.state_at(session, row).merge_scopes() == self.states[row.event_id]


def comparable(outcome: Session | Any) -> Any:
    """Return what of a session both services must tell; when it was created each knows for itself."""
    if not isinstance(outcome, Session):
        return outcome
    events: list[Event] = outcome.events
    return (outcome.user_id, outcome.id, outcome.state, events, events and outcome.last_update_time)


def fold(scope: Scope, owner: int) -> dict[str, Any]:
    """Return a scope's state by applying every ledger row in order."""
    state: dict[str, Any] = {}
    rows = StateChange.objects.filter(scope=scope, owner_id=owner).order_by("position", "id")
    for row in rows:
        state[row.key] = history.StateAt([row], [], []).values(Scope.SESSION)[row.key]
    return state


@pytest.mark.parametrize("examples", [5, pytest.param(15, marks=pytest.mark.soak)])
def test_any_sequence_of_calls_agrees_with_adks_service(store, examples):
    run_state_machine_as_test(
        Sessions,
        settings=settings(
            max_examples=examples,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
