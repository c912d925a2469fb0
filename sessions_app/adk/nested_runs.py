"""Nested runs: the runs of agents that are used as tools (`AgentTool`), inside the calls.

ADK runs such an agent in a separate in-memory session and returns only its last text. The recorder observes its events,
because `AgentTool` passes plug-ins on. They are stored in a session of their own (`NestedRun.child`): no model and no
client of ADK's API receives them.
"""

from __future__ import annotations

import contextvars
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types

from sessions_app.adk import event_mapping
from sessions_app.store import scopes
from sessions_app.store.events.summary import shorten_id
from sessions_app.store.models import NestedRun
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions.nested_runs import NestedRunOrigin, save_nested
from sessions_app.store.short_texts import truncate
from sessions_app.store.traces.outbox import Unit, outbox
from sessions_app.store.traces.records import MAX_ERROR

MAX_EVENTS = 2_000
"""Maximum events stored for a call of the session, at all depths: hours of an agent's work, read in seconds."""

MAX_BYTES = 16_000_000
"""Maximum total size of these events: enough for some pictures, and still fast to search."""

MAX_STATE_BYTES = 100_000
"""Maximum size of the stored state at the start of a nested run; further keys are only counted."""

MAX_VALUE_BYTES = 10_000
"""Maximum size of a value of this state; of a larger one, the beginning of its JSON text is stored."""


@dataclass(frozen=True, slots=True)
class _NestedCall:
    """A tool call in progress."""

    invocation_id: str
    call_id: str
    branch: str


_current_call: contextvars.ContextVar[_NestedCall | None] = contextvars.ContextVar("devui_call", default=None)


@dataclass(slots=True)
class _Budget:
    """Remaining storage for a call of the session. Only the outbox's thread uses `size`."""

    events: int
    size: int


@dataclass(slots=True)
class _OpenRun:
    """A nested run in progress. Only the outbox's thread writes `stored`.

    Attributes:
        key: the session that is not nested.
        invocation_id: invocation of that session.
        budget_key: event id and id of the outermost call, which has one budget for all depths.
        state: state at its start, redacted and bounded.
    """

    key: SessionKey
    invocation_id: str
    origin: NestedRunOrigin
    budget_key: tuple[str, str]
    agent: str
    budget: _Budget
    state: dict[str, Any]
    state_omitted: int
    started_at: float = field(default_factory=time.time)
    finished_at: float | None = None
    error: str = ""
    events: int = 0
    stored: int = 0
    event_ids: set[str] = field(default_factory=set)

    def note(self, event: Event, model: str = "") -> str:
        """Store a copy of an event without the marks of ADK's evaluation, unless the call's budget is used up.

        Returns:
            The id under which it is stored.
        """
        self.events += 1
        if self.budget.events <= 0:
            return event.id
        self.budget.events -= 1
        delta = {
            key: scopes.to_jsonable(value) for key, value in _without_mark(event.actions.state_delta).items()
        }
        metadata = _without_mark(event.custom_metadata or {}) or None
        changes: dict[str, Any] = {"custom_metadata": metadata}
        if event.id in self.event_ids:  # a session of the store has each id once
            changes["id"] = f"{event.id}-{self.events}"
        self.event_ids.add(event.id)
        copy = event.model_copy(update=changes)
        outbox().enqueue(partial(self._event_unit, copy, delta, model))
        return copy.id

    def close(self, error: str) -> None:
        """Store the end of the run."""
        self.finished_at, self.error = time.time(), error
        outbox().enqueue(self.unit)

    def unit(self) -> Unit:
        """Return the write of the run in its current state."""
        return partial(save_nested, self.key, self.origin, self._build_row(), self.state)

    def _event_unit(self, event: Event, delta: dict[str, Any], model: str) -> Unit:
        record = event_mapping.to_record(event, delta=delta, keep_temp=False, model=model)
        size = len(record.data) + len(record.summary)
        if size > self.budget.size:
            return self.unit()
        self.budget.size -= size
        self.stored += 1
        return partial(save_nested, self.key, self.origin, self._build_row(), self.state, record)

    def _build_row(self) -> NestedRun:
        return NestedRun(
            invocation_id=self.invocation_id,
            call_id=self.origin.call_id,
            agent=self.agent,
            started_at=self.started_at,
            finished_at=self.finished_at,
            changed_at=time.time(),
            error=self.error,
            state_omitted=self.state_omitted,
            event_count=self.events,
            stored_count=self.stored,
        )


class NestedRuns:
    """The nested runs of an invocation of a session, at all depths."""

    def __init__(self, key: SessionKey, invocation_id: str) -> None:
        """Observe an invocation of the session `key`."""
        self._key = key
        self._invocation_id = invocation_id
        self._open: dict[str, _OpenRun] = {}
        self._budgets: dict[tuple[str, str], _Budget] = {}
        self._call_events: dict[tuple[str, str, str], str] = {}

    def open(self, context: InvocationContext) -> None:
        """Note the start of a nested run, unless it runs outside a tool call or its call has no budget left."""
        ref, call = context.invocation_id, _current_call.get()
        if call is None or ref in self._open:
            return
        parent = self._open.get(call.invocation_id)
        if parent is None and call.invocation_id != self._invocation_id:
            return
        event_id = self._call_events.get((call.invocation_id, call.branch, call.call_id), "")
        budget_key = parent.budget_key if parent else (event_id, call.call_id)
        budget = self._budgets.setdefault(budget_key, _Budget(MAX_EVENTS, MAX_BYTES))
        if budget.events <= 0:
            return
        state, omitted = _bounded_state(_without_mark(context.session.state))
        self._open[ref] = _OpenRun(
            key=self._key,
            invocation_id=self._invocation_id,
            origin=NestedRunOrigin(ref, call.call_id, event_id, parent.origin.ref if parent else ""),
            budget_key=budget_key,
            agent=scopes.clean_text(context.agent.name if context.agent else ""),
            budget=budget,
            state=state,
            state_omitted=omitted,
        )

    def note_message(self, ref: str, message: types.Content) -> None:
        """Note the request to the agent, which ADK reports without an event."""
        if run := self._open.get(ref):
            run.note(Event(id=uuid.uuid4().hex, invocation_id=ref, author="user", content=message))

    def note_event(self, ref: str, event: Event, model: str) -> None:
        """Note an event of a nested run and the model that was asked for it, or an event of the session. No chunks."""
        if event.partial:
            return
        run = self._open.get(ref)
        event_id = run.note(event, model) if run else event.id
        for call in event.get_function_calls():
            self._call_events[ref, event.branch or "", _stored_id(call.id or "")] = event_id

    def close(self, ref: str, error: BaseException | None = None) -> None:
        """Note the end of a nested run."""
        if run := self._open.pop(ref, None):
            text = f"{type(error).__name__}: {error}" if error else ""
            run.close(truncate(scopes.clean_error(text), MAX_ERROR))

    def close_all(self) -> None:
        """End the runs whose end ADK did not report: their calls were cancelled."""
        for run in self._open.values():
            run.close(NestedRun.CUT_OFF)
        self._open.clear()


def note_call(invocation_id: str, call_id: str, branch: str) -> None:
    """Note the tool call that the current task executes: a run that starts inside it is nested."""
    _current_call.set(_NestedCall(invocation_id, _stored_id(call_id), branch) if call_id else None)


def _stored_id(call_id: str) -> str:
    """Return a call's id as summaries of events have it."""
    return shorten_id(scopes.clean_text(call_id))


def _without_mark(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return state or metadata without the key that ADK's evaluation sets in every event."""
    return {name: value for name, value in values.items() if name != scopes.EVALUATION_KEY}


def _bounded_state(state: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return a state without credentials, and the number of keys that did not fit. Of large values, return a text."""
    values: dict[str, Any] = {}
    remaining = MAX_STATE_BYTES
    for key, value in state.items():
        name = scopes.canonicalize_key(key)
        text = scopes.canonicalize(value, name).public
        if len(text) > MAX_VALUE_BYTES:
            text = scopes.dumps(f"{text[:MAX_VALUE_BYTES]}… ({len(text):,} characters)")
        remaining -= len(name) + len(text)
        if remaining < 0:
            break
        values[name] = json.loads(text)
    return values, len(state) - len(values)
