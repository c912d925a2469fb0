"""Comparison of two sessions from their common events on. Reads a bounded number of events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
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

TURN_PREFIX = re.compile(r"^Turn \d+ · ")
"""Number at the start of a turn's title."""


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
    such a rest. Turns with the same text are paired; the turns between two such pairs are paired in order.
    """
    left_turns, left_has_more = _next_turns(left, left_after)
    right_turns, right_has_more = _next_turns(right, right_after)
    pairs = _pair_turns(left_turns, right_turns)
    # turns of the other session after a page's last one are paired on the next page
    if left_has_more:
        pairs = pairs[: _count_pairs(pair.left for pair in pairs)]
    if right_has_more:
        pairs = pairs[: _count_pairs(pair.right for pair in pairs)]
    return TurnPage(
        pairs,
        _build_side(left, left_after, (turn.left for turn in pairs)),
        _build_side(right, right_after, (turn.right for turn in pairs)),
    )


def state_difference(
    left: AgentSession, right: AgentSession, left_at: Event | None = None, right_at: Event | None = None
) -> StateDifference:
    """Return the keys whose values differ between two sessions, each at an event or now (None)."""
    left_turns, right_turns = _read_values(left, left_at), _read_values(right, right_at)
    scoped_keys = sorted(
        left_turns.keys() | right_turns.keys(), key=lambda key: (list(Scope).index(key[0]), key[1])
    )
    pairs = (KeyPair(*key, left_turns.get(key), right_turns.get(key)) for key in scoped_keys)
    keys = [pair for pair in pairs if pair.differs]
    return StateDifference(keys, len(scoped_keys) - len(keys))


def _pair_turns(left_turns: list[InvocationGroup], right_turns: list[InvocationGroup]) -> list[TurnPair]:
    if left_turns and right_turns and left_turns[0].continued != right_turns[0].continued:
        if left_turns[0].continued:
            return [TurnPair(left_turns[0], None), *_pair_turns(left_turns[1:], right_turns)]
        return [TurnPair(None, right_turns[0]), *_pair_turns(left_turns, right_turns[1:])]
    left_texts, right_texts = (
        [_turn_text(group) for group in groups] for groups in (left_turns, right_turns)
    )
    blocks = SequenceMatcher(None, left_texts, right_texts, autojunk=False).get_opcodes()
    return [
        TurnPair(*pair)
        for _, begin, end, other_begin, other_end in blocks
        for pair in zip_longest(left_turns[begin:end], right_turns[other_begin:other_end])
    ]


def _turn_text(group: InvocationGroup) -> str:
    """Return the title of a turn without its number."""
    return TURN_PREFIX.sub("", group.title).casefold()


def _count_pairs(side: Iterable[InvocationGroup | None]) -> int:
    """Return the number of pairs up to the last one in which this side has a turn."""
    return max((number for number, group in enumerate(side, 1) if group), default=0)


def _next_turns(session: AgentSession, after: int) -> tuple[list[InvocationGroup], bool]:
    """Return the next turns of a session and whether there are more; an incomplete turn moves to the next page."""
    window = windows.after(session, after, PAGE)
    groups = list(read_timeline(session, window).groups)
    if window.has_newer and len(groups) > 1:
        groups.pop()
    return groups, bool(window.events) and window.has_newer


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
