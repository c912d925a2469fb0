"""State board: the keys of every scope at an event, their writers, and what has changed since.

Boards of two points in time differ in few keys. A client that shows one board requests another relative to it
(`client_board`): unchanged entries then come by name only. Hidden keys are counted, not read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Value

from sessions_app.state.board_entries import BoardEntry, is_written_by, read_entries, unchanged_entry
from sessions_app.state.ephemeral_keys import UntrackedEntry, read_ghosts, read_untracked
from sessions_app.state.key_changes import TEMP, scope_prefix
from sessions_app.store import scopes
from sessions_app.store.database.combined_query import read_together
from sessions_app.store.models import AgentSession, Event, Run, Scope, StateChange, UntrackedKey
from sessions_app.store.state import counts, history
from sessions_app.store.state.counts import Counts
from sessions_app.store.state.history import Owners
from sessions_app.store.state.keys import KeyAt, first_keys, keys_by_id
from sessions_app.store.state.points import KeyRef, PointPair

MAX_WRITTEN = 10
"""Keys of a scope written by the event that are shown beyond the limit."""

SCOPES = (Scope.SESSION, Scope.USER, Scope.APP)


@dataclass(frozen=True, slots=True)
class ClientBoard:
    """The board that a client shows: its event and its mark."""

    event: Event
    mark: str


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A scope at a point in time.

    Attributes:
        entries: the shown entries, sorted, including keys created later.
        count: number of keys with a value.
        hidden: number of keys that are not shown.
        next: id of the first key after the shown ones; empty at the end.
        is_begun: the entries do not start with the first key.
    """

    scope: str
    entries: list[BoardEntry]
    count: int
    hidden: int = 0
    next: str = ""
    is_begun: bool = False

    @property
    def fresh(self) -> list[BoardEntry]:
        """The entries that the client does not have yet."""
        return [entry for entry in self.entries if not entry.same]

    @property
    def order(self) -> str:
        """The ids of all entries as a JSON list, if the client has some of them; else empty."""
        if all(not entry.same for entry in self.entries):
            return ""
        return json.dumps([entry.id for entry in self.entries])


@dataclass(frozen=True, slots=True)
class Board:
    """The state at an event, or now (`seq` None).

    Attributes:
        columns: session, user, app, temp.
        untracked: keys that the event's invocation changed without an event.
        mark: changes with the state of any scope, whoever writes it.
        changed_since: number of keys whose value has changed since.
        like: search text; only matching keys are shown and counted.
        begin: id of the first key of its scope to show; empty: from the start.
    """

    seq: int | None
    columns: list[ScopeColumn]
    mark: str
    changed_since: int = 0
    untracked: list[UntrackedEntry] = field(default_factory=list)
    like: str = ""
    begin: str = ""

    @property
    def entries(self) -> list[BoardEntry]:
        """Shown entries of keys with a value, in the order session, user, app, temp."""
        return [entry for column in self.columns for entry in column.entries if not entry.is_later]

    @property
    def later(self) -> list[BoardEntry]:
        """Shown entries of keys that did not exist yet."""
        return [entry for column in self.columns for entry in column.entries if entry.is_later]

    @property
    def hidden(self) -> int:
        """Number of keys that are not shown."""
        return sum(column.hidden for column in self.columns)

    def tabs(self) -> list[tuple[str, int]]:
        """Return (name, number of keys) of each tab."""
        counts = {column.scope: column.count for column in self.columns}
        stored = sum(counts[scope] for scope in SCOPES)
        return [("all", stored + counts[TEMP]), ("merged", stored), *counts.items()]


def read_board(
    session: AgentSession,
    event: Event | None = None,
    *,
    limit: int = 0,
    watched: Collection[str] = (),
    like: str = "",
    begin: str = "",
    client_board: ClientBoard | None = None,
    running: Run | None = None,
) -> Board:
    """Return the board at an event, or now. Keys written by the (last) event are marked as changed.

    The number of queries depends only on whether keys are hidden. Only the start of each shown value is read.

    Args:
        session: the session.
        event: the point in time; None: now.
        limit: maximum number of entries per scope, besides changed and watched ones; 0: no limit.
        watched: prefixed keys that are always shown.
        like: substring of the prefixed key names, case-insensitive.
        begin: id of the first entry of its scope to show.
        client_board: the board that the client shows; unchanged entries come without content, unless the state was
            written since.
        running: the running run of the session; None: there is none.
    """
    now, newest_untracked, mark = _read_current(session, running)
    client_event = client_board.event if client_board and client_board.mark == mark else None
    pinned = frozenset(filter(None, map(_parse_watched, watched)))
    query = _BoardQuery(session, now, limit, pinned, like, parse_entry_id(begin))
    moment = event.seq if event else session.last_seq
    columns, changed = _stored_columns(query, event, moment, client_event)
    temp = read_ghosts(session, _invocation_at(event, running), moment, like)
    return Board(
        event.seq if event else None,
        [*columns, ScopeColumn(TEMP, temp.entries, temp.count, temp.count - len(temp.entries))],
        mark,
        changed,
        read_untracked(session, event) if newest_untracked else [],
        like,
        begin,
    )


def _invocation_at(event: Event | None, running: Run | None) -> str:
    """Return the invocation whose `temp:` keys exist: the event's, or now the running run's."""
    if event is not None:
        return event.invocation_id
    return running.invocation_id if running else ""


def state_mark(
    last_seq: int,
    user_version: int | None,
    app_version: int | None,
    untracked: int | None,
    running: Run | None,
) -> str:
    """Return the mark of a session's state, which also changes when another session writes a shared key.

    `untracked` is the newest key changed without an event; `running` the run whose `temp:` keys exist.
    """
    run = running.pk if running and running.invocation_id else ""
    return f"{last_seq}.{user_version or 0}.{app_version or 0}.{untracked or 0}.{run}"


def current_state_mark(session: AgentSession) -> str:
    """Return the mark of a session's current state."""
    return _read_current(session, running_run(session))[-1]


def running_run(session: AgentSession) -> Run | None:
    """Return the running run of a session."""
    running = Run.objects.filter(session=session, status=Run.Status.RUNNING)
    return running.only("pk", "invocation_id").order_by("created_at", "pk").first()


def _read_current(session: AgentSession, running: Run | None) -> tuple[Owners, int, str]:
    """Return the current owners of a session's scopes, its newest untracked key (0: none), and its state's mark.

    One query.
    """
    untracked = UntrackedKey.objects.filter(session=session).order_by("-pk").values_list("pk", Value(0))[:1]
    users, apps, newest = read_together(*history.shared_owner_rows(session), untracked)
    now = history.row_owners(session, users, apps)
    user_version, app_version = now.positions.get(Scope.USER), now.positions.get(Scope.APP)
    newest_pk = newest[0][0] if newest else 0
    return now, newest_pk, state_mark(session.last_seq, user_version, app_version, newest_pk, running)


def _parse_watched(name: str) -> KeyRef | None:
    """Return scope and `key_id` of a watched key; None for `temp:` keys."""
    if name.startswith(scopes.TEMP_PREFIX):
        return None
    scope, key = scopes.split_scope(name)
    return scope, scopes.key_id(key)


def parse_entry_id(begin: str) -> KeyRef | None:
    """Return scope and `key_id` of an entry id; None for `temp:` keys."""
    return scopes.split_scope(begin) if begin and not begin.startswith(scopes.TEMP_PREFIX) else None


@dataclass(frozen=True, slots=True)
class _ListedKeys:
    """The shown keys of a scope, sorted.

    Attributes:
        aside: watched keys that do not match the search.
        next: the next `key_id`; empty at the end.
    """

    keys: list[KeyAt]
    aside: frozenset[KeyAt] = frozenset()
    are_all: bool = True
    next: str = ""


@dataclass(frozen=True, slots=True)
class _BoardQuery:
    """Parameters of a board, without the point in time."""

    session: AgentSession
    now: Owners
    limit: int
    watched: frozenset[KeyRef]
    like: str
    begin: KeyRef | None

    def first_shown_key(self, scope: Scope) -> str:
        """Return the first `key_id` of a scope to show; empty: from the start."""
        return self.begin[1] if self.begin and self.begin[0] == scope else ""

    def at(self, event: Event | None) -> PointPair:
        """Return the pair of points in time: an event and now."""
        return PointPair(self.session, self.now.at(event) if event else self.now, self.now)

    def list_keys(self, points: PointPair, moment: int) -> dict[Scope, _ListedKeys]:
        """Return the keys to show: the first ones, those written by the event, and the watched ones."""
        begins = {scope: self.first_shown_key(scope) for scope in SCOPES}
        first = first_keys(points, begins, self.limit and self.limit + 1, self.like)
        return {scope: self._list_scope(points, scope, moment, first[scope]) for scope in SCOPES}

    def _list_scope(self, at: PointPair, scope: Scope, moment: int, first: Sequence[KeyAt]) -> _ListedKeys:
        """Return the keys of a scope to show, the first ones of which have been read."""
        limit, begin = self.limit and self.limit + 1, self.first_shown_key(scope)
        goes_on = bool(limit) and len(first) == limit
        are_all = not (goes_on or begin)
        keys = {key.key_id: key for key in first[: self.limit or None]}
        if not are_all:
            for key in self._written_keys(at, scope, moment, keys):
                keys[key.key_id] = key
        watched = {key_id for of, key_id in self.watched if of == scope} - keys.keys()
        watched_keys = keys_by_id(at, scope, watched) if watched else []
        answers = {key.key_id for key in keys_by_id(at, scope, watched, self.like)} if self.like else watched
        keys |= {key.key_id: key for key in watched_keys}
        return _ListedKeys(
            sorted(keys.values(), key=lambda key: key.key_id),
            frozenset(key for key in watched_keys if key.key_id not in answers),
            are_all,
            first[-1].key_id if goes_on else "",
        )

    def counts(self, points: PointPair, scope: Scope, listed: _ListedKeys) -> Counts:
        """Return the total numbers of keys."""
        if not listed.are_all:
            return counts.count(points, scope, self.like)
        return Counts.of([key for key in listed.keys if key not in listed.aside])

    def _written_keys(
        self, points: PointPair, scope: Scope, moment: int, key_ids: Collection[str]
    ) -> list[KeyAt]:
        """Return keys written by the event beyond the first ones."""
        if not moment:
            return []
        changes = StateChange.objects.filter(session=self.session, seq=moment, scope=scope).order_by("pk")
        names = changes.values_list("key_id", flat=True)[: self.limit + MAX_WRITTEN]
        keys = keys_by_id(points, scope, set(names) - set(key_ids), self.like)
        return [key for key in keys if is_written_by(key, moment)][:MAX_WRITTEN]


def _stored_columns(
    query: _BoardQuery, event: Event | None, moment: int, client_event: Event | None
) -> tuple[list[ScopeColumn], int]:
    """Return the columns of the stored scopes, and the number of keys changed since."""
    points = query.at(event)
    listed = query.list_keys(points, moment)
    counts = {scope: query.counts(points, scope, listed[scope]) for scope in SCOPES}
    aside = frozenset[KeyAt]().union(*(keys.aside for keys in listed.values()))
    entries = read_entries(query.session, _fresh_keys(query, listed, moment, client_event), moment, aside)
    columns = [
        _build_column(
            scope, listed[scope], counts[scope], entries, is_begun=bool(query.first_shown_key(scope))
        )
        for scope in SCOPES
    ]
    return columns, sum(count.changed for count in counts.values())


def _fresh_keys(
    query: _BoardQuery, listed: Mapping[Scope, _ListedKeys], moment: int, client_event: Event | None
) -> list[KeyAt]:
    """Return the keys whose entries the client lacks, or that are marked as just written on either board."""
    keys = [key for keys in listed.values() for key in keys.keys]
    if client_event is None:
        return keys
    points = query.at(client_event)
    had = {
        (scope, key.key_id): key.then
        for scope, keys_of_scope in query.list_keys(points, client_event.seq).items()
        for key in keys_of_scope.keys
    }
    return [
        key
        for key in keys
        if (key.scope, key.key_id) not in had
        or had[key.scope, key.key_id] != key.then
        or is_written_by(key, moment)
        or is_written_by(key, client_event.seq)
    ]


def _build_column(
    scope: Scope, listed: _ListedKeys, counts: Counts, entries: Mapping[KeyAt, BoardEntry], *, is_begun: bool
) -> ScopeColumn:
    return ScopeColumn(
        str(scope),
        [entries.get(key) or unchanged_entry(key) for key in listed.keys],
        counts.then,
        max(0, counts.either - (len(listed.keys) - len(listed.aside))),
        scope_prefix(scope) + listed.next if listed.next else "",
        is_begun,
    )
