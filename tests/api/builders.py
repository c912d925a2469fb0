"""Builders of sessions and events for API tests."""

from __future__ import annotations

import time
from typing import Any

from sessions_app.store.database import units_of_work
from sessions_app.store.events import build_record
from sessions_app.store.models import AgentSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes


def wire_event(event_id: str, delta: dict[str, Any] | None = None, invocation: str = "i1") -> dict[str, Any]:
    """Return an event in wire form that says its own id."""
    return {
        "id": event_id,
        "invocationId": invocation,
        "author": "weather",
        "timestamp": time.time(),
        "content": {"role": "model", "parts": [{"text": event_id}]},
        "actions": {"stateDelta": delta or {}},
    }


async def create(session_id: str = "s1", initial: dict[str, Any] | None = None, **key: str) -> AgentSession:
    """Create a session of ann's in the app weather."""
    session_key = SessionKey(
        **{"realm": "", "app_name": "weather", "user_id": "ann", **key, "session_id": session_id}
    )
    return await units_of_work.write(writes.create_session, session_key, initial or {})


async def append(session: AgentSession, event_id: str, delta: dict[str, Any] | None = None) -> None:
    """Append an event to a session."""
    key = session.key
    await units_of_work.write(lambda: writes.append_event(key, build_record(wire_event(event_id, delta))))


def run_body(session_id: str, text: str) -> dict[str, object]:
    parts = [{"text": text}]
    return {
        "appName": "slow",
        "userId": "ann",
        "sessionId": session_id,
        "newMessage": {"role": "user", "parts": parts},
    }
