"""A session to branch from, and its stored rows and states for comparison."""

from __future__ import annotations

from typing import Any

from sessions_app.store.models import AgentSession, Event
from sessions_app.store.state import history as history
from tests.timeline.story import Story


def tell_three_invocations() -> Story:
    """Build a session with keys that are seeded, written, rewritten and shared."""
    story = Story(initial={"seed": 1, "rewritten": 1, "user:tier": "free", "app:motto": "hi"})
    story.asks("one")
    story.says("1", delta={"b": 1, "rewritten": 5})
    story.invocation = "i2"
    story.asks("two")
    story.calls("book", "c1", city="Paris")
    story.answers("book", "c1", delta={"b": 2, "c": 9, "user:tier": "gold", "app:news": True})
    story.says("2")
    story.invocation = "i3"
    story.asks("three")
    story.says("3", delta={"seed": 2})
    return story


def columns(row: Any, *excluded: str) -> dict[str, Any]:
    """Return the columns of a row except its id."""
    return {
        f.attname: getattr(row, f.attname)
        for f in row._meta.concrete_fields
        if f.attname not in {"id", *excluded}
    }


def event_columns(session: AgentSession) -> list[dict[str, Any]]:
    """Return the columns of the events of a session, in order."""
    return [columns(event, "session_id") for event in Event.objects.filter(session=session).order_by("seq")]


def state_at_seq(session: AgentSession, seq: int) -> dict[str, Any]:
    return history.state_at(session, Event.objects.get(session=session, seq=seq)).merge_scopes()


def current_state(session: AgentSession) -> dict[str, Any]:
    return history.state_at(session).merge_scopes()
