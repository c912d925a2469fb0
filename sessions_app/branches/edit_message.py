"""Editing of a user message: a fork before the message, in which the edited message is sent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.branches import fork
from sessions_app.lookup import find_event, find_session
from sessions_app.sessions import storage_location
from sessions_app.store import events, scopes
from sessions_app.store.errors import BadInput
from sessions_app.store.events.conditions import is_user_message
from sessions_app.store.models import AgentSession, Event, Scope
from sessions_app.store.sessions import writes
from sessions_app.store.state import history

FORK_ORIGIN = "fork"


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A user's message in an event.

    Attributes:
        others: the parts that are not text: files.
        delta: the state delta sent with the message.
        left: number of events that the fork leaves behind.
    """

    session: AgentSession
    event: Event
    text: str
    others: list[dict[str, Any]]
    delta: dict[str, Any]
    left: int

    @property
    def before(self) -> int:
        """The seq of the last event before the message; 0 if there is none."""
        return self.event.seq - 1

    def request(self, text: str, delta: Mapping[str, Any], *, streaming: bool = True) -> dict[str, Any]:
        """Return the request of a run that sends the edited message."""
        parts = [*([{"text": text}] if text.strip() else []), *self.others]
        request: dict[str, Any] = {"new_message": {"role": "user", "parts": parts}, "streaming": streaming}
        return request | ({"state_delta": dict(delta)} if delta else {})


def find_message(session_pk: int, seq: int) -> UserMessage:
    """Return the user's message in an event.

    Raises:
        SessionMissing: the session does not exist.
        EventMissing: the session has no such event.
        BadInput: the event is no message of the user.
    """
    session = find_session(session_pk)
    event = find_event(session, seq=seq)
    if not is_user_message(event):
        raise BadInput(f"Event {seq} is not a message of the user.", hint="Choose a message of the user.")
    body = json.loads(event.data)
    parts = events.content_parts(body)
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return UserMessage(
        session,
        event,
        text="\n".join(texts) or json.loads(event.summary).get("heard", ""),
        others=[part for part in parts if not isinstance(part.get("text"), str)],
        delta=(body.get("actions") or {}).get("stateDelta") or {},
        left=session.last_seq - seq + 1,
    )


def fork_before(message: UserMessage, title: str) -> AgentSession:
    """Fork a session before a message. The original session does not change.

    Before the first message this is an empty session with the initial state. A session with its own shared state is
    forked with its own shared state.

    Raises:
        SessionMissing: the session was deleted.
        BadInput: another service owns the app's sessions, or the title is too long.
    """
    if message.before:
        has_realm = bool(message.session.realm)
        return fork.fork(
            message.session.pk, fork.NewFork(seq=message.before, title=title, own_realm=has_realm)
        )
    session = message.session
    if not session.realm:
        storage_location.refuse_new(session.app_name)
    state = history.state_at_start(session).values(Scope.SESSION)
    key = session.key._replace(realm="", session_id=str(uuid.uuid4()))
    return writes.create_session(key, state, origin=FORK_ORIGIN, title=scopes.clean_text(title))
