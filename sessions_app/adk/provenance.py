"""Passes the recorder's observations about an event to the session service, by event id.

The recorder is a plug-in and runs before the append; the service stores its notes in the same transaction as the event.
Notes of events that are never appended are dropped, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sessions_app.adk.untracked_state import StateCopy
from sessions_app.store.database.bounded_dict import BoundedDict
from sessions_app.store.events import StateWrite
from sessions_app.store.events.attribution import Writer

MAX_PENDING = 1000


@dataclass(frozen=True, slots=True)
class EventNotes:
    """Writer of each prefixed key of an event's delta, whether its `temp:` keys are stored as ghost keys, and the model
    that was asked for it."""

    writers: dict[str, Writer] = field(default_factory=dict)
    keep_temp: bool = True
    model: str = ""


_pending: BoundedDict[str, EventNotes] = BoundedDict(MAX_PENDING)
_of_invocation: BoundedDict[str, EventNotes] = BoundedDict(MAX_PENDING)
_state_copies: BoundedDict[str, StateCopy] = BoundedDict(MAX_PENDING)


def note_event(event_id: str, notes: EventNotes) -> None:
    """Store the notes of an event that is about to be appended."""
    _pending[event_id] = notes


def note_invocation(invocation_id: str, notes: EventNotes) -> None:
    """Store notes for all events of an invocation, such as the user's message, which passes no plug-in."""
    _of_invocation[invocation_id] = notes


def watch_state(invocation_id: str, copy: StateCopy) -> None:
    """Store a copy of the state at the start of an invocation, in which later writes are noted."""
    _state_copies[invocation_id] = copy


def note_stored(invocation_id: str, writes: Sequence[StateWrite]) -> None:
    """Note the writes of an event of an invocation."""
    if writes and (copy := _state_copies.get(invocation_id)):
        copy.note_stored(writes)


def end_state_watch(invocation_id: str) -> StateCopy | None:
    """Remove and return the state copy of an ended invocation."""
    return _state_copies.pop(invocation_id, None)


def forget_invocation(invocation_id: str) -> None:
    """Drop the notes of an ended invocation."""
    _of_invocation.pop(invocation_id, None)


def take_notes(event_id: str, invocation_id: str) -> EventNotes | None:
    """Remove and return the notes of an event, or return those of its invocation; None without a recorder."""
    return _pending.pop(event_id, None) or _of_invocation.get(invocation_id)
