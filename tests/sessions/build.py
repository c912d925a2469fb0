"""Builders of sessions and events."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.genai import types

APP = "weather"
USER = "ann"
OWNER = {"app_name": APP, "user_id": USER}


def event(text: str | None = None, delta: dict[str, Any] | None = None, **fields: Any) -> Event:
    """Return an agent's event that says `text` and changes state by `delta`."""
    content = types.Content(role="model", parts=[types.Part(text=text)]) if text is not None else None
    event_fields = {"author": "agent", "invocation_id": "i1", "content": content, **fields}
    return Event(actions=EventActions(state_delta=delta or {}), **event_fields)


async def create(service: BaseSessionService, session_id: str = "s1", **fields: Any) -> Session:
    """Create a session of the usual app and user."""
    return await service.create_session(**{**OWNER, "session_id": session_id, **fields})


async def get(service: BaseSessionService, session_id: str = "s1", **fields: Any) -> Session:
    """Return a session that must exist."""
    session = await service.get_session(**{**OWNER, "session_id": session_id, **fields})
    assert session is not None
    return session


async def append(
    session: Session, service: BaseSessionService, delta: dict[str, Any], **fields: Any
) -> Event:
    """Append an event with a state delta."""
    return await service.append_event(session, event(delta=delta, **fields))
