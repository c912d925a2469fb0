"""State that an attempt reached, read from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessions_app.models import AgentSession, Event
from sessions_app.state import history


@dataclass(frozen=True)
class ReachedStates:
    """State (keys with their prefixes) at the end of an attempt, and after each of its turns."""

    final: Mapping[str, Any] = field(default_factory=dict)
    turns: Sequence[Mapping[str, Any]] = ()

    def at(self, turn: int | None) -> Mapping[str, Any]:
        """Return the state after a turn, counted from 0 (empty if it was not reached), or at the end (None)."""
        if turn is None:
            return self.final
        return self.turns[turn] if turn < len(self.turns) else {}


def read_states(session_pk: int, invocation_ids: Sequence[str]) -> ReachedStates:
    """Return the final state of a session, and the state after each of these invocations."""
    session = AgentSession.objects.get(pk=session_pk)
    turns = []
    for invocation_id in invocation_ids:
        events = Event.objects.filter(session=session, invocation_id=invocation_id)
        last = events.defer("data", "private").order_by("-seq").first()
        turns.append(history.state_at(session, last).merged() if last else {})
    return ReachedStates(history.state_at(session).merged(), turns)
