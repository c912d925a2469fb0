"""First steps for a newcomer: features that the first page names, each with a session of the store that can show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessions_app.sessions.overview import Agent
from sessions_app.store.events import EventKind
from sessions_app.store.models import AgentSession, Event, StateChange

FEW_SESSIONS = 20
"""Number of sessions up to which the first page shows first steps."""

LEAST_EVENTS = 4
"""Number of events from which a session can show how its state was earlier."""


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """A session, its last answer, a change of its state and a message of its user; None: the store has none.

    Attributes:
        seq: the event in the middle of the session, for a look at its state.
    """

    session: AgentSession | None = None
    seq: int = 0
    answer: Event | None = None
    change: StateChange | None = None
    message: Event | None = None


def find_first_steps(agents: Sequence[Agent]) -> FirstSteps | None:
    """Return the first steps; None if the store has more than a few sessions. Three queries."""
    if sum(agent.session_count for agent in agents) > FEW_SESSIONS:
        return None
    sessions = [session for agent in agents for session in agent.sessions if session.last_seq >= LEAST_EVENTS]
    if not sessions:
        return FirstSteps()
    session = max(sessions, key=lambda row: row.updated_at)
    changes = StateChange.objects.filter(session=session, seq__gt=0, removed=False)
    answers = Event.objects.filter(session=session, kind=EventKind.AGENT)
    messages = Event.objects.filter(session=session, kind="user").exclude(invocation_id="")
    return FirstSteps(
        session,
        session.last_seq // 2,
        answers.only("seq").order_by("-seq").first(),
        changes.order_by("-seq", "-pk").first(),
        messages.only("seq").order_by("-seq").first(),
    )
