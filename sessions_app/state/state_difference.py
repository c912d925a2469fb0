"""Difference between the state at two points in time of a session, for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sessions_app.lookup import find_event
from sessions_app.presentation import value_diff
from sessions_app.presentation.value_diff import DiffLine
from sessions_app.state.key_changes import is_inferred, read_change_writer, scope_prefix, writer_text
from sessions_app.state.state_board import SCOPES, current_state_mark, parse_entry_id
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, Event, Scope, StateChange
from sessions_app.store.state import differences
from sessions_app.store.state.differences import Diff, KeyDiff

NOW = "now"
START = 0


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key whose value differs.

    Attributes:
        change: added, changed or removed.
        old, new: JSON, if both are short.
        lines: line difference of longer values.
        write: the write of the later value, or the removal.
        who: the writer in words; `is_inferred`: inferred from the event.
        elsewhere: whether another session made the write.
    """

    scope: str
    key: str
    name: str
    change: str
    old: str | None
    new: str | None
    lines: list[DiffLine]
    is_hidden: bool
    write: StateChange
    who: str
    is_inferred: bool
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class StateDifferences:
    """Keys that differ between two points in time.

    Attributes:
        first: seq of the earlier event; 0: the start, before the first event.
        last: seq of the later event; None: now.
        base: the point in time to compare with, as in the URL.
        entries: the first keys of each scope.
        counts: number of differing keys per scope.
        following: name and next key id of each scope with more keys.
        is_begun: a scope does not start with its first key.
    """

    first: int
    last: int | None
    base: str
    mark: str
    entries: list[KeyDifference]
    counts: Mapping[Scope, int]
    following: list[tuple[str, str]]
    is_begun: bool

    @property
    def count(self) -> int:
        """Number of keys that differ."""
        return sum(self.counts.values())

    @property
    def hidden(self) -> int:
        """Number of differing keys that are not shown."""
        return self.count - len(self.entries)

    def tabs(self) -> list[tuple[str, int]]:
        """Return (name, number of keys) of each tab."""
        return [("merged", self.count), *((str(scope), self.counts.get(scope, 0)) for scope in SCOPES)]


def state_differences(
    session: AgentSession, base: str, selected: Event | None, *, limit: int = 0, begin: str = ""
) -> StateDifferences:
    """Return the difference between the selected event (None: now) and the point `base`, the earlier one first.

    Args:
        session: the session.
        base: seq of an event, `0` for the start, or `now`.
        selected: the selected event.
        limit: maximum number of keys per scope; 0: no limit.
        begin: id of the first key of its scope to show; empty: from the start.

    Raises:
        BadInput: `base` is no point in time.
        EventMissing: the session has no such event.
    """
    other, is_start = _parse_base(session, base)
    if is_start:
        first, last = None, selected
    elif other is None:
        first, last = selected, None
    elif selected is None or other.seq <= selected.seq:
        first, last = other, selected
    else:
        first, last = selected, other
    nothing = first is None and not is_start
    first_entry = parse_entry_id(begin)
    difference = (
        Diff([], {}, {})
        if nothing
        else differences.diff(session, first, last, limit=limit, begin=first_entry)
    )
    return StateDifferences(
        first=session.last_seq if nothing else first.seq if first else START,
        last=last.seq if last else None,
        base=base,
        mark=current_state_mark(session),
        entries=[_key_difference(session, entry) for entry in difference.keys],
        counts=difference.counts,
        following=[
            (str(scope), scope_prefix(scope) + key) for scope, key in difference.following.items() if key
        ],
        is_begun=first_entry is not None,
    )


def _parse_base(session: AgentSession, base: str) -> tuple[Event | None, bool]:
    """Return (event, whether it is the start). The event is None for the start and for now."""
    if base == NOW:
        return None, False
    if not base.isdecimal() or len(base) > 18:
        raise BadInput(
            f"{base[:40]!r} is not a point in time to compare with.",
            hint="Use the number of an event, 0 for the start, or `now`.",
        )
    seq = int(base)
    if seq == START:
        return None, True
    return find_event(session, seq=seq), False


def _key_difference(session: AgentSession, entry: KeyDiff) -> KeyDifference:
    write = entry.write
    old = entry.old.value if entry.old else None
    new = entry.new.value if entry.new else None
    brief = value_diff.is_brief(old, new)
    by = read_change_writer(write), write.author, write.cause
    return KeyDifference(
        scope=str(entry.scope),
        key=entry.key,
        name=entry.name,
        change=entry.change,
        old=old if brief else None,
        new=new if brief else None,
        lines=[] if brief else value_diff.diff_lines(old, new),
        is_hidden=entry.is_hidden,
        write=write,
        who=writer_text(*by),
        is_inferred=is_inferred(*by),
        elsewhere=write.session_id != session.pk,
    )
