"""Two sessions side by side from their common events on. Reads only, and a bounded number of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from sessions_app import scopes
from sessions_app.branches.rewind_plan import StoredValue
from sessions_app.models import AgentSession, Event, Scope
from sessions_app.sessions.lineage import ancestors
from sessions_app.state import history
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.timeline_reader import read_timeline

PAGE = 60
"""Events of each session on a page."""


@dataclass(frozen=True, slots=True)
class TurnPair:
    """What stands side by side: consecutive events of an invocation; None where a session has no such turn."""

    left: InvocationGroup | None
    right: InvocationGroup | None


@dataclass(frozen=True, slots=True)
class ComparedSession:
    """One session of a comparison.

    Attributes:
        after, next: seq behind which this page began, and the next one begins.
        more: there are events behind `next`.
    """

    session: AgentSession
    after: int
    next: int
    more: bool


@dataclass(frozen=True, slots=True)
class TurnPage:
    """A page of turns."""

    turns: list[TurnPair]
    left: ComparedSession
    right: ComparedSession

    @property
    def more(self) -> bool:
        """Tell whether either session goes on behind this page."""
        return self.left.more or self.right.more


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key that has not the same value in both. None: it does not exist there."""

    scope: Scope
    key: str
    left: StoredValue | None
    right: StoredValue | None

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return scopes.PREFIX[self.scope] + self.key


@dataclass(frozen=True, slots=True)
class StateDifference:
    """How the states differ; `same` counts the keys that do not."""

    keys: list[KeyPair]
    same: int


_FIRST_DIFFERENT = """
SELECT a.seq FROM sessions_app_event a
LEFT JOIN sessions_app_event b ON b.session_id = %s AND b.seq = a.seq
WHERE a.session_id = %s AND a.seq > %s AND (b.event_id IS NULL OR b.event_id <> a.event_id)
ORDER BY a.seq LIMIT 1
"""


def count_common_events(left: AgentSession, right: AgentSession) -> int:
    """Return how many first events two sessions share, by their ids; 0: none.

    What a fork has taken over need not be looked at, and the look ends at the first event that differs.
    """
    if left.pk == right.pk:
        return left.last_seq
    known = _count_shared_by_lineage(left, right)
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_DIFFERENT, [right.pk, left.pk, known])
        row = cursor.fetchone()
    return row[0] - 1 if row else left.last_seq


def read_turns(left: AgentSession, right: AgentSession, left_after: int, right_after: int) -> TurnPage:
    """Return the turns behind two events, at most `PAGE` events a session.

    A turn that does not end on the page goes on on the next; the rest of one that began before stands alone, unless
    the other session's does, too.
    """
    ours, our_more = _groups(left, left_after)
    theirs, their_more = _groups(right, right_after)
    if ours and theirs and _is_rest(ours[0]) != _is_rest(theirs[0]):
        (theirs if _is_rest(ours[0]) else ours).insert(0, None)
    limits = [len(groups) for groups, more in ((ours, our_more), (theirs, their_more)) if more]
    count = min(limits) if limits else max(len(ours), len(theirs))
    pairs = [TurnPair(_at(ours, number), _at(theirs, number)) for number in range(count)]
    return TurnPage(
        pairs,
        _side(left, left_after, (turn.left for turn in pairs)),
        _side(right, right_after, (turn.right for turn in pairs)),
    )


def state_difference(
    left: AgentSession, right: AgentSession, left_at: Event | None = None, right_at: Event | None = None
) -> StateDifference:
    """Return the keys whose values differ between two sessions, each at an event or (None) now."""
    ours, theirs = _values(left, left_at), _values(right, right_at)
    places = sorted(ours.keys() | theirs.keys(), key=lambda place: (list(Scope).index(place[0]), place[1]))
    keys = [
        KeyPair(scope, key, ours.get((scope, key)), theirs.get((scope, key)))
        for scope, key in places
        if _whole_text(ours.get((scope, key))) != _whole_text(theirs.get((scope, key)))
    ]
    return StateDifference(keys, len(places) - len(keys))


def _count_shared_by_lineage(left: AgentSession, right: AgentSession) -> int:
    """Return how many first events both took over from the same session, or one from the other."""
    ours = {left.pk: left.last_seq} | {each.pk: each.last_seq for each in ancestors(left)}
    theirs = {right.pk: right.last_seq} | {each.pk: each.last_seq for each in ancestors(right)}
    return max((min(ours[pk], theirs[pk]) for pk in ours.keys() & theirs.keys()), default=0)


def _groups(session: AgentSession, after: int) -> tuple[list[InvocationGroup | None], bool]:
    """Return the next turns of a session, and whether there is more; a turn that is cut waits for the next page."""
    window = windows.after(session, after, PAGE)
    found: list[InvocationGroup | None] = list(read_timeline(session, window).groups)
    if window.has_newer and len(found) > 1:
        found.pop()
    return found, bool(window.events) and window.has_newer


def _is_rest(group: InvocationGroup | None) -> bool:
    return group is not None and group.continued


def _at(groups: list[InvocationGroup | None], number: int) -> InvocationGroup | None:
    return groups[number] if number < len(groups) else None


def _side(session: AgentSession, after: int, shown: Iterator[InvocationGroup | None]) -> ComparedSession:
    last = max((_last_seq(group) for group in shown if group), default=after)
    return ComparedSession(session, after, last, last < session.last_seq)


def _last_seq(group: InvocationGroup) -> int:
    return max(item.event.seq for row in group.rows for item in (row.head, *row.answers))


def _values(session: AgentSession, event: Event | None) -> dict[tuple[Scope, str], StoredValue]:
    owners = history.owners_at(session, event)
    found: dict[tuple[Scope, str], StoredValue] = {}
    for scope, owner_id in owners.ids.items():
        rows = history.stored_writes(scope, owner_id, owners.positions[scope])
        found.update(((scope, row.key), StoredValue.of(row)) for row in rows)
    return found


def _whole_text(text: StoredValue | None) -> str | None:
    return None if text is None else text.whole
