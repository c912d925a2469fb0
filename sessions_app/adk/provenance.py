"""What the recorder saw of an event before it is appended, handed to the session service by the event's id.

The recorder is a plug-in and runs before the append; the service stores what it noted in the same transaction
as the event. Notes of events that are never appended are dropped, oldest first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from sessions_app.adk.untracked_state import StateCopy
from sessions_app.events import KeyWrite
from sessions_app.events.attribution import Writer

MAX_PENDING = 1000


@dataclass(frozen=True, slots=True)
class EventNotes:
    """Who wrote each prefixed key of an event's delta, and whether its `temp:` keys are kept as ghosts."""

    writers: dict[str, Writer] = field(default_factory=dict)
    keep_temp: bool = True


_pending: OrderedDict[str, EventNotes] = OrderedDict()
_of_invocation: OrderedDict[str, EventNotes] = OrderedDict()
_state_copies: OrderedDict[str, StateCopy] = OrderedDict()


def note_event(event_id: str, notes: EventNotes) -> None:
    """Note what was seen of the event that is about to be appended."""
    _remember(_pending, event_id, notes)


def note_invocation(invocation_id: str, notes: EventNotes) -> None:
    """Note what holds for every event of an invocation: the user's message passes no plug-in on its way."""
    _remember(_of_invocation, invocation_id, notes)


def watch_state(invocation_id: str, copy: StateCopy) -> None:
    """Keep a copy of the state as an invocation found it; what is stored is noted in it from now on."""
    _state_copies[invocation_id] = copy
    while len(_state_copies) > MAX_PENDING:
        _state_copies.popitem(last=False)


def note_stored(invocation_id: str, writes: Sequence[KeyWrite]) -> None:
    """Note what an event of an invocation stored."""
    if writes and (copy := _state_copies.get(invocation_id)):
        copy.note_stored(writes)


def end_state_watch(invocation_id: str) -> StateCopy | None:
    """Return and forget the copy of an invocation that has ended."""
    return _state_copies.pop(invocation_id, None)


def forget_invocation(invocation_id: str) -> None:
    """Drop what was noted for an invocation that has ended."""
    _of_invocation.pop(invocation_id, None)


def take_notes(event_id: str, invocation_id: str) -> EventNotes | None:
    """Return and forget the notes of an event, else those of its invocation; None without a recorder."""
    return _pending.pop(event_id, None) or _of_invocation.get(invocation_id)


def _remember(notes_by_id: OrderedDict[str, EventNotes], name: str, notes: EventNotes) -> None:
    notes_by_id[name] = notes
    while len(notes_by_id) > MAX_PENDING:
        notes_by_id.popitem(last=False)
