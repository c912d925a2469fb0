"""Responses of ADK servers, in the spelling of any language. Pure; nothing is dropped.

A response that no ADK server sends raises `ValueError`, with what is wrong as the end of a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.store.events.timestamps import parse_timestamp
from sessions_app.store.short_texts import truncate
from sessions_app.store.text_input import parse_json

MAX_ERROR = 2_000
"""Most characters of a server's error message."""


@dataclass(frozen=True, slots=True)
class RemoteEvent:
    """An event of a remote server.

    Attributes:
        wire: the event in Python's wire form; a missing time is its arrival, or 0 in a session.
        removed: keys of its delta that were removed, not set to None.
    """

    wire: dict[str, Any]
    removed: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """ADK's id of the event."""
        return str(self.wire["id"])

    @property
    def is_partial(self) -> bool:
        """Tell whether this is a streamed chunk, which the server stores in no session."""
        return bool(self.wire.get("partial"))


@dataclass(frozen=True, slots=True)
class ReportedFailure:
    """An error that a server reports in a stream."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """A session of a remote server; `events` are its JSON, which a dialect converts."""

    id: str
    user_id: str
    state: dict[str, Any]
    updated_at: float
    events: list[dict[str, Any]]


def parse_app_names(answer: Any) -> tuple[str, ...]:
    """Return the names in a response of `/list-apps`, sorted."""
    if answer is None:  # an empty list of some servers
        return ()
    if not isinstance(answer, list) or not all(isinstance(name, str) for name in answer):
        raise ValueError("an ADK server sends a list of names")
    return tuple(sorted(set(answer)))


def parse_session(session: Any) -> RemoteSession:
    """Return a session of a response."""
    if not isinstance(session, dict):
        raise ValueError("a session is an object")
    folded = {str(key).replace("_", "").lower(): value for key, value in session.items()}
    name, user_id = folded.get("id", folded.get("sessionid")), folded.get("userid")
    if not isinstance(name, str) or not isinstance(user_id, str):
        raise ValueError("a session has an id and a userId")
    events = folded.get("events") or []
    state = folded.get("state") or {}
    if not isinstance(events, list) or not isinstance(state, dict):
        raise ValueError("the events of a session are a list, its state is an object")
    try:
        updated_at = parse_timestamp(folded.get("lastupdatetime", folded.get("updatedat"))) or 0.0
    except ValueError:
        updated_at = 0.0
    return RemoteSession(
        name, user_id, state, updated_at, [event for event in events if isinstance(event, dict)]
    )


def parse_session_list(answer: Any) -> list[RemoteSession]:
    """Return the sessions of a list response, without events: an array, null, or an object with an array."""
    listed = answer.get("sessions") if isinstance(answer, dict) else answer
    if not isinstance(listed or [], list) or not all(isinstance(entry, dict) for entry in listed or []):
        raise ValueError("sessions are listed in an array")
    return [parse_session({**entry, "events": []}) for entry in listed or []]


def event_id(raw: Mapping[str, Any], number: int) -> str:
    """Return the id of an event, or one made of its position in its session."""
    value = raw.get("id", raw.get("Id", raw.get("ID")))
    return str(value) if value else f"event-{number}"


def parse_failure(value: Any) -> ReportedFailure:
    """Return the error in a response or frame.

    Servers send `error` with `error_details`, `detail`, `message`, `error`, or plain text.
    """
    if not isinstance(value, dict):
        return ReportedFailure("RemoteError", _shorten_value(value))
    details = value.get("error_details")
    details = details if isinstance(details, dict) else {}
    kind, error = details.get("error_type") or "", value.get("error")
    text = details.get("error_message") or value.get("detail") or value.get("message") or error or value
    if not kind and isinstance(error, str):
        head, separator, message = error.partition(": ")
        if separator and head.isidentifier():
            kind, text = head, message if text == error else text
    return ReportedFailure(str(kind) or "RemoteError", _shorten_value(text))


def error_text(body: bytes) -> str:
    """Return the message of an error response; empty if it has none."""
    text = body.decode(errors="replace").strip()
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        is_page = text.startswith("<")  # an HTML page is no message
        return "" if is_page else _shorten_value(text)
    return parse_failure(value).message if value else ""


def _shorten_value(value: Any) -> str:
    return truncate(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MAX_ERROR)
