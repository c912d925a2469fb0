"""Sessions built event by event, in wire form, through the write service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sessions_app.store import events
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey

START = 1_700_000_000.0

LARGE = 101
"""Keys of a scope that is read as a large one in tests with `low_key_limit`."""


def many_keys(prefix: str = "", number: int = LARGE) -> dict[str, int]:
    """Return the values of so many keys of a scope that it is read as a large one. They sort behind all others."""
    return {f"{prefix}z{at:04}": at for at in range(number)}


class Story:
    """A session to which events are added; every event comes a second after the one before it."""

    def __init__(
        self,
        session_id: str = "s1",
        initial: Mapping[str, Any] | None = None,
        *,
        app: str = "weather",
        user: str = "ann",
        realm: str = "",
    ) -> None:
        self.key = SessionKey(realm, app, user, session_id)
        self.pk = writes.create_session(self.key, initial, now=START).pk
        self.invocation = "i1"
        self.told = 0

    @property
    def session(self) -> AgentSession:
        """The session's row as it is now."""
        return AgentSession.objects.get(pk=self.pk)

    def event(self, seq: int) -> Event:
        """Return a stored event."""
        return Event.objects.get(session_id=self.pk, seq=seq)

    def add(
        self,
        *parts: dict[str, Any],
        author: str = "agent",
        actions: dict[str, Any] | None = None,
        delta: dict[str, Any] | None = None,
        writers: Mapping[str, Writer] | None = None,
        keep_temp: bool = False,
        **fields: Any,
    ) -> int:
        """Append an event of these content parts and return its seq."""
        self.told += 1
        body: dict[str, Any] = {
            "id": f"e{self.told}",
            "invocationId": self.invocation,
            "author": author,
            "timestamp": START + self.told,
            "actions": {"stateDelta": delta or {}, **(actions or {})},
            **fields,
        }
        if parts:
            body["content"] = {"role": "user" if author == "user" else "model", "parts": list(parts)}
        record = events.build_record(body, writers=writers, keep_temp=keep_temp)
        return writes.append_event(self.key, record).seq

    def says(self, text: str, author: str = "agent", **fields: Any) -> int:
        """Append an event of text."""
        return self.add({"text": text}, author=author, **fields)

    def asks(self, text: str) -> int:
        """Append a message of the user."""
        return self.says(text, author="user")

    def calls(self, name: str, call_id: str, waiting: bool = False, **args: Any) -> int:
        """Append a function call; a waiting one is long-running."""
        fields = {"longRunningToolIds": [call_id]} if waiting else {}
        return self.add({"functionCall": {"id": call_id, "name": name, "args": args}}, **fields)

    def answers(self, name: str, call_id: str, author: str = "agent", **fields: Any) -> int:
        """Append a function response; `response` is its body."""
        body = fields.pop("response", {"status": "ok"})
        part = {"functionResponse": {"id": call_id, "name": name, "response": body}}
        return self.add(part, author=author, **fields)
