"""State that an attempt reached, read from the store."""

from __future__ import annotations

from collections.abc import Sequence

from evals_app.metrics.own import ReachedStates
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.state import history


def read_states(session_pk: int, invocation_ids: Sequence[str]) -> ReachedStates:
    """Return the final state of a session, and the state after each of these invocations."""
    session = AgentSession.objects.get(pk=session_pk)
    turns = []
    for invocation_id in invocation_ids:
        events = Event.objects.filter(session=session, invocation_id=invocation_id)
        last = events.defer("data", "private").order_by("-seq").first()
        turns.append(history.state_at(session, last).merge_scopes() if last else {})
    return ReachedStates(history.state_at(session).merge_scopes(), turns)
