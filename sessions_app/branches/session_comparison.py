"""Comparison of two sessions from their common events on. Reads a bounded number of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from sessions_app.branches.rewind_plan import StoredValue
from sessions_app.store import scopes
from sessions_app.store.models import AgentSession, Event, Scope
from sessions_app.store.state import history
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.timeline_reader import read_timeline

PAGE = 60
"""Events of each session per page."""


@dataclass(frozen=True, slots=True)
class TurnPair:
    """Consecutive events of an invocation in both sessions; None if a session has no such turn."""

    left: InvocationGroup | None
    right: InvocationGroup | None


@dataclass(frozen=True, slots=True)
class ComparedSession:
    """One session of a comparison.

    Attributes:
        after, next: seqs after which this page and the next page begin.
        more: there are events after `next`.
    """

    session: AgentSession
    after: int
    next: int
    more: bool


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A page of paired turns."""

    turns: list[TurnPair]
    left: ComparedSession
    right: ComparedSession

    @property
    def more(self) -> bool:
        """Tell whether either session has events after this page."""
        return self.left.more or self.right.more


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key whose value differs between the sessions. None: the key does not exist."""

    scope: Scope
    key: str
    left: StoredValue | None
    right: StoredValue | None

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return scopes.PREFIX[self.scope] + self.key

    @property
    def differs(self) -> bool:
        """Tell whether the values differ, including credentials."""
        return (self.left and self.left.whole) != (self.right and self.right.whole)


@dataclass(frozen=True, slots=True)
class StateDifference:
    """Keys that differ between two states; `same` counts the equal keys."""

    keys: list[KeyPair]
    same: int


def read_turns(left: AgentSession, right: AgentSession, left_after: int, right_after: int) -> TurnPage:
    """Return the turns after two events, at most `PAGE` events per session.

    A turn that does not end on the page continues on the next. The rest of a turn that began before is paired only with
    such a rest.
    """
    ours, our_more = _next_turns(left, left_after)
    theirs, their_more = _next_turns(right, right_after)
    if ours and theirs and _is_rest(ours[0]) != _is_rest(theirs[0]):
        (theirs if _is_rest(ours[0]) else ours).insert(0, None)
    limit = min(
        (len(groups) for groups, more in ((ours, our_more), (theirs, their_more)) if more), default=None
    )
    pairs = [TurnPair(*pair) for pair in list(zip_longest(ours, theirs))[:limit]]
    return TurnPage(
        pairs,
        _build_side(left, left_after, (turn.left for turn in pairs)),
        _build_side(right, right_after, (turn.right for turn in pairs)),
    )


def state_difference(
    left: AgentSession, right: AgentSession, left_at: Event | None = None, right_at: Event | None = None
) -> StateDifference:
    """Return the keys whose values differ between two sessions, each at an event or now (None)."""
    ours, theirs = _read_values(left, left_at), _read_values(right, right_at)
    scoped_keys = sorted(ours.keys() | theirs.keys(), key=lambda key: (list(Scope).index(key[0]), key[1]))
    pairs = (KeyPair(*key, ours.get(key), theirs.get(key)) for key in scoped_keys)
    keys = [pair for pair in pairs if pair.differs]
    return StateDifference(keys, len(scoped_keys) - len(keys))


def _next_turns(session: AgentSession, after: int) -> tuple[list[InvocationGroup | None], bool]:
    """Return the next turns of a session and whether there are more; an incomplete turn moves to the next page."""
    window = windows.after(session, after, PAGE)
    groups: list[InvocationGroup | None] = list(read_timeline(session, window).groups)
    if window.has_newer and len(groups) > 1:
        groups.pop()
    return groups, bool(window.events) and window.has_newer


def _is_rest(group: InvocationGroup | None) -> bool:
    return group is not None and group.continued


def _build_side(
    session: AgentSession, after: int, groups: Iterator[InvocationGroup | None]
) -> ComparedSession:
    items = (item for group in groups if group for item in group.items)
    last = max((item.event.seq for item in items), default=after)
    return ComparedSession(session, after, last, last < session.last_seq)


def _read_values(session: AgentSession, event: Event | None) -> dict[tuple[Scope, str], StoredValue]:
    owners = history.owners_at(session, event)
    values: dict[tuple[Scope, str], StoredValue] = {}
    for scope, owner_id in owners.ids.items():
        rows = history.stored_writes(scope, owner_id, owners.positions[scope])
        values.update(((scope, row.key), StoredValue.of(row)) for row in rows)
    return values
