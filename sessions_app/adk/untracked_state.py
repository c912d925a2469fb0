"""Detection of state changes without an event.

Only the deltas of events are stored. An agent that changes `session.state` directly, or a value read from it, changes
only its own copy, and the next invocation starts without the change. The recorder detects this silent loss by comparing
the state at the end of an invocation with the state at its start and the writes since.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.events import StateWrite
from sessions_app.store.scopes import CanonicalValue
from sessions_app.store.sessions.writes import UntrackedWrite


@dataclass(slots=True)
class StateCopy:
    """State according to events: a copy from the start of an invocation, and the writes since."""

    _start: dict[str, bytes | str]
    _stored: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, session_state: Mapping[Any, Any]) -> StateCopy:
        """Return a deep copy of a session's state."""
        return cls({name: _freeze_value(value, name) for name, value in _iter_tracked(session_state)})

    def note_stored(self, writes: Iterable[StateWrite]) -> None:
        """Note the writes of an appended event."""
        for write in writes:
            self._stored[write.name] = write.value.private or write.value.public

    def untracked_keys(self, session_state: Mapping[Any, Any]) -> list[UntrackedWrite]:
        """Return the keys whose value differs from the one according to events, sorted."""
        now = dict(_iter_tracked(session_state))
        return [
            difference
            for name in sorted({*self._start, *self._stored, *now})
            if (difference := self._compare_key(name, now)) is not None
        ]

    def _compare_key(self, name: str, now: Mapping[str, Any]) -> UntrackedWrite | None:
        stored = self._stored.get(name)
        start = self._start.get(name) if stored is None else None
        if name in now and start is not None and _freeze_value(now[name], name) == start:
            return None
        before = _thaw_value(start, name) if stored is None else stored
        after = scopes.canonicalize(now[name], name) if name in now else None
        if (after and _canonical_text(after)) == before:
            return None
        return UntrackedWrite(name, after, before)


def _iter_tracked(session_state: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in session_state.items():
        name = scopes.canonicalize_key(key)
        if not name.startswith(scopes.TEMP_PREFIX):
            yield name, value


def _freeze_value(value: Any, name: str) -> bytes | str:
    """Return a serialized form that is equal for equal values. Marshal takes a twentieth of JSON's time."""
    try:
        return marshal.dumps(value, 2)  # version 2 has no references, which depend on more than the value
    except ValueError:
        return _canonical_text(scopes.canonicalize(value, name))


def _thaw_value(frozen: bytes | str | None, name: str) -> str | None:
    if not isinstance(frozen, bytes):
        return frozen
    return _canonical_text(scopes.canonicalize(marshal.loads(frozen), name))  # noqa: S302 - our own bytes


def _canonical_text(value: CanonicalValue) -> str:
    return value.private or value.public
