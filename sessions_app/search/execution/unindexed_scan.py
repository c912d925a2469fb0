"""Scan of the events behind each session's index cursor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from sessions_app.search.execution.session_sets import FEW
from sessions_app.search.query.terms import StateTerm
from sessions_app.search.state_conditions import value_condition
from sessions_app.store import scopes
from sessions_app.store.database import tokens
from sessions_app.store.events import event_text
from sessions_app.store.index import index_backlog
from sessions_app.store.models import AgentSession, Event, StateChange

MOST_SESSIONS = 200
MOST_EVENTS = 500
"""Maximum sessions and events scanned. A store that is being indexed for the first time has more."""


def count_unindexed() -> int:
    """Return the number of sessions that are not indexed; 0 if they are few enough to scan."""
    waiting = index_backlog.sessions().order_by("-pk")
    newest = list(waiting.values_list("indexed_seq", "last_seq")[:MOST_SESSIONS])
    if len(newest) == MOST_SESSIONS:
        return waiting.count()
    events = sum(last - max(indexed, 0) for indexed, last in newest)
    return len(newest) if events > MOST_EVENTS else 0


@dataclass
class UnindexedTail:
    """The unindexed events of all sessions, or of one."""

    session: AgentSession | None = None
    _texts: dict[tuple[int, int], str] = field(default_factory=dict)

    @cached_property
    def sessions(self) -> dict[int, int]:
        """Index cursors by primary key, newest sessions first."""
        rows = index_backlog.sessions()
        if self.session is not None:
            rows = rows.filter(pk=self.session.pk)
        return dict(rows.order_by("-pk").values_list("pk", "indexed_seq")[:MOST_SESSIONS])

    @property
    def has_all(self) -> bool:
        """Return whether the tail is complete."""
        return len(self.sessions) < MOST_SESSIONS

    @cached_property
    def events(self) -> list[Event]:
        """The events behind the cursors, newest sessions first."""
        if not self.sessions:
            return []
        rows = Event.objects.filter(index_backlog.BEHIND_CURSOR, session__in=self.sessions)
        return list(rows.only(*event_text.COLUMNS).order_by("-session", "-seq")[:MOST_EVENTS])

    def events_with_phrase(self, phrase: tokens.Phrase) -> list[Event]:
        """Return the events that contain a phrase."""
        return [event for event in self.events if self.holds(event, phrase)]

    def holds(self, event: Event, phrase: tokens.Phrase) -> bool:
        """Return whether an event contains a phrase."""
        text = self._event_text(event)
        if not all(token in text for token in phrase.tokens):
            return False  # fast: only texts that may match are split into words
        return tokens.contains_phrase(tokens.tokenize(text), phrase)

    def events_with_trait(self, matches: Callable[[event_text.Trait], bool]) -> list[Event]:
        """Return the events with a trait."""
        return [event for event in self.events if any(map(matches, _event_traits(event)))]

    def owners(self, term: StateTerm) -> set[int]:
        """Return the owners of state that had a matching value."""
        if not self.sessions:
            return set()
        rows = StateChange.objects.filter(
            index_backlog.BEHIND_CURSOR,
            session__in=self.sessions,
            scope=term.scope,
            key_id=scopes.key_id(term.key),
            removed=False,
        )
        return set(rows.filter(value_condition(term)).values_list("owner_id", flat=True)[:FEW])

    def _event_text(self, event: Event) -> str:
        key = (event.session_id, event.seq)
        if key not in self._texts:
            self._texts[key] = tokens.normalize(event_text.data_text(event.data))
        return self._texts[key]


def _event_traits(event: Event) -> list[event_text.Trait]:
    return event_text.event_traits(event.kind, event.author, event.branch, event.summary)
