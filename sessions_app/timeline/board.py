"""The state board: every scope as it was at an event, who last wrote each key, and what has changed since.

Stepping through time shows little that is new. A reader that has the board of one moment asks for another one's by
what is different (`seen`): the other entries come by name alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import CharField, Count, Max
from django.db.models.functions import Substr

from sessions_app import history
from sessions_app.attribution import UNKNOWN, Writer
from sessions_app.history import WRITES_COUNTED, Owners
from sessions_app.models import AgentSession, Cause, Event, Scope, StateChange, TempWrite, UntrackedKey
from sessions_app.timeline.changes import BRIEF, TEMP, cut, scope_prefix, writer_of, writer_text

GHOST_LIMIT = 2000
"""Characters of a ghost's value: it has no row in the ledger that a page could fetch the rest from."""

GHOSTS_SHOWN = 200

UNTRACKED_LIMIT = 50
"""Keys changed without an event that a board shows; the page of the drift has more."""

WRITTEN_SHOWN = 200
"""Keys of a scope that an event wrote and that are shown beyond the limit."""

SCOPES = (Scope.SESSION, Scope.USER, Scope.APP)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader has on screen: the board at an event, and the mark that came with it."""

    event: Event
    mark: str


@dataclass(frozen=True, slots=True)
class Since:
    """What became of a key after the moment looked at: its value now as brief JSON; None: it was removed."""

    value: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A key at the moment looked at.

    Attributes:
        change_pk: the ledger row that wrote it; 0 for a `temp:` ghost.
        key_id: the key, or its hash when it is long.
        value: its JSON, cut to `BRIEF` characters; None for a key that came later.
        branches: the value is an object or an array with something in it.
        is_cut: there is more of it than `value` shows.
        changed: the event looked at wrote it.
        seq, event_id: the writing event; `elsewhere` tells that it stands in another session.
        writes: how often it was written until then, counted up to `WRITES_COUNTED`.
        since: set when the key was written again after that moment.
        version: another one when anything above is different.
        same: the reader has it already: nothing but `scope` and `key_id` is filled in.
    """

    change_pk: int
    scope: str
    key: str
    value: str | None
    key_id: str = ""
    note: str = ""
    branches: bool = False
    is_cut: bool = False
    changed: bool = False
    writer: Writer = UNKNOWN
    cause: str = Cause.APPEND
    timestamp: float | None = None
    seq: int = 0
    event_id: str = ""
    session_pk: int | None = None
    from_session: str = ""
    elsewhere: bool = False
    writes: int = 0
    since: Since | None = None
    version: str = ""
    same: bool = False

    @property
    def id(self) -> str:
        """What tells it from all others on the board."""
        return scope_prefix(self.scope) + (self.key_id or self.key)

    @property
    def name(self) -> str:
        """The key as an agent writes it, with its prefix."""
        return scope_prefix(self.scope) + self.key

    @property
    def who(self) -> str:
        """Who wrote it, in words."""
        return writer_text(self.writer)

    @property
    def is_inferred(self) -> bool:
        """Tell whether the writer was read off the event."""
        return self.scope != TEMP and bool(self.writer.kind) and self.writer.inferred

    @property
    def place(self) -> str:
        """Where it was written: `here`, `elsewhere`, in a session that is `deleted`; empty: before any event."""
        if self.elsewhere:
            return "elsewhere" if self.session_pk else "deleted"
        return "here" if self.seq else ""

    @property
    def is_later(self) -> bool:
        """Tell whether the key came after the moment looked at."""
        return self.value is None and not self.same

    @property
    def opens(self) -> bool:
        """Tell whether there is more of its value than a line, and a row of the ledger that has it."""
        return bool(self.is_cut or (self.change_pk and self.branches))

    @property
    def is_counted_out(self) -> bool:
        """Tell whether it was written more often than was counted."""
        return self.writes >= WRITES_COUNTED


@dataclass(frozen=True, slots=True)
class Column:
    """A scope at the moment looked at.

    Attributes:
        entries: what is shown, sorted; keys that came later among them.
        count: keys that had a value.
        hidden: keys that are left out.
    """

    scope: str
    entries: list[Entry]
    count: int
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class Untracked:
    """A key that the invocation had changed without an event when it ended: nothing stored it.

    Attributes:
        value: JSON; None: the key was taken out.
        stored: JSON of what events had stored; None: no such key.
    """

    scope: str
    key: str
    value: str | None
    stored: str | None
    note: str = ""
    version: str = ""

    @property
    def name(self) -> str:
        """The key as an agent writes it, with its prefix."""
        return scope_prefix(self.scope) + self.key


@dataclass(frozen=True, slots=True)
class Board:
    """The state at an event, or now (`seq` None).

    Attributes:
        columns: session, user, app, temp.
        untracked: what the event's invocation had changed without an event.
        mark: changes when the state of any scope does, whoever writes it.
        changed_since: how many keys are not now what they were.
    """

    seq: int | None
    columns: list[Column]
    mark: str
    changed_since: int = 0
    untracked: list[Untracked] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        """What is shown of the keys that had a value, in the order session, user, app, temp."""
        return [entry for column in self.columns for entry in column.entries if not entry.is_later]

    @property
    def later(self) -> list[Entry]:
        """What is shown of the keys that did not exist yet."""
        return [entry for column in self.columns for entry in column.entries if entry.is_later]

    @property
    def hidden(self) -> int:
        """How many keys are left out."""
        return sum(column.hidden for column in self.columns)

    def tabs(self) -> list[tuple[str, int]]:
        """Return (name, number of keys) of each tab."""
        counts = {column.scope: column.count for column in self.columns}
        stored = sum(counts[scope] for scope in SCOPES)
        return [("all", stored + counts[TEMP]), ("merged", stored), *counts.items()]


def board(
    session: AgentSession,
    event: Event | None = None,
    *,
    limit: int = 0,
    watched: Collection[str] = (),
    seen: Seen | None = None,
) -> Board:
    """Return the board at an event; without one, the board now. Keys of the (last) event count as changed.

    The number of queries depends on nothing; values are read of what is shown, and only their beginning.

    Args:
        session: whose state it is.
        event: the moment; None: now.
        limit: entries of a scope that are shown besides those that changed or are watched; 0: all.
        watched: prefixed keys that are shown in any case.
        seen: the board that the reader has: entries that are as they were there come without content, unless
            something was written since.
    """
    now = history.owners_at(session)
    mark = _mark_of(session, now)
    known = seen.event if seen and seen.mark == mark else None
    then = now.at(event) if event else now
    moment = event.seq if event else session.last_seq
    keys = _keys([then, now, now.at(known) if known else then])
    written = _written_by(session, {moment, known.seq if known else moment})
    wrote = written.get(moment, set())
    shown = _shown(keys, {key: key.then for key in keys}, wrote, limit, watched)
    fresh: Collection[_Key] = shown
    if known:
        had = _shown(keys, {key: key.known for key in keys}, written.get(known.seq, set()), limit, watched)
        fresh = {key for key in shown if key not in had or _differs(key, written)}
    entries = _entries(session, fresh, wrote)
    return Board(
        event.seq if event else None,
        [*(_column(scope, keys, shown, entries) for scope in SCOPES), _ghosts(session, event)],
        mark,
        sum(key.then != key.now for key in keys),
        _untracked(session, event),
    )


def state_mark(
    last_seq: int, user_version: int | None, app_version: int | None, untracked: int | None
) -> str:
    """Return the mark of a session's state: it changes when another session writes a shared key, too.

    `untracked` is the newest key that was changed without an event.
    """
    return f"{last_seq}.{user_version or 0}.{app_version or 0}.{untracked or 0}"


def state_mark_of(session: AgentSession) -> str:
    """Return the mark of a session's state as it is now."""
    return _mark_of(session, history.owners_at(session))


def _mark_of(session: AgentSession, now: Owners) -> str:
    noticed = UntrackedKey.objects.filter(session=session).order_by("-pk").values_list("pk", flat=True)
    return state_mark(
        session.last_seq, now.positions.get(Scope.USER), now.positions.get(Scope.APP), noticed.first()
    )


@dataclass(frozen=True, slots=True)
class _Key:
    """A key that was ever written, and the rows that gave it its value; None: it had none."""

    scope: Scope
    key_id: str
    then: int | None
    now: int | None
    known: int | None

    @property
    def name(self) -> str:
        return scope_prefix(self.scope) + self.key_id


def _keys(moments: Sequence[Owners]) -> list[_Key]:
    """Return the keys with their rows at the moments then, now and known."""
    writes = history.writes_at(moments)
    pks = {pk for write in writes for pk in write.rows if pk is not None}
    removed = history.removals(pks)
    return [
        _Key(write.scope, write.key_id, *(None if pk in removed else pk for pk in write.rows))
        for write in writes
    ]


def _written_by(session: AgentSession, seqs: Collection[int]) -> dict[int, set[int]]:
    """Return the rows that events wrote, by their `seq`."""
    found: dict[int, set[int]] = {}
    rows = StateChange.objects.filter(session=session, seq__in=set(seqs) - {0})
    for seq, pk in rows.values_list("seq", "pk"):
        found.setdefault(seq, set()).add(pk)
    return found


def _differs(key: _Key, written: Mapping[int, set[int]]) -> bool:
    """Tell whether an entry is another one now: it has another value, or is marked as just written."""
    return key.then != key.known or any(key.then in pks for pks in written.values())


def _shown(
    keys: Iterable[_Key],
    at: Mapping[_Key, int | None],
    written: set[int],
    limit: int,
    watched: Collection[str],
) -> set[_Key]:
    """Return the keys that have a value at a moment or now, within the limit, or written or watched."""
    places: Counter[Scope] = Counter()
    beyond: Counter[Scope] = Counter()
    found: set[_Key] = set()
    for key in keys:
        if at[key] is None and key.now is None:
            continue
        if not limit or places[key.scope] < limit or key.name in watched:
            found.add(key)
        elif at[key] in written and beyond[key.scope] < WRITTEN_SHOWN:
            beyond[key.scope] += 1
            found.add(key)
        places[key.scope] += 1
    return found


def _column(scope: Scope, keys: Sequence[_Key], shown: set[_Key], entries: Mapping[_Key, Entry]) -> Column:
    mine = [key for key in keys if key.scope == scope]
    visible = sum(key.then is not None or key.now is not None for key in mine)
    listed = [key for key in mine if key in shown]
    return Column(
        str(scope),
        [entries.get(key) or Entry(0, str(scope), "", None, key.key_id, same=True) for key in listed],
        sum(key.then is not None for key in mine),
        visible - len(listed),
    )


_TEXT = CharField()

_FACTS = (
    *("pk", "scope", "key", "note", "cause", "timestamp", "session_id", "from_session", "seq", "event_id"),
    *("writer", "writer_name", "call_id", "inferred"),
)


def _entries(session: AgentSession, keys: Collection[_Key], written: set[int]) -> dict[_Key, Entry]:
    """Return what is shown of keys that have a value then or now."""
    facts = _brief_rows({pk for key in keys for pk in (key.then, key.now) if pk is not None})
    return {key: _entry(session, key, facts, written) for key in keys}


def _brief_rows(pks: Collection[int]) -> dict[int | None, dict[str, Any]]:
    """Return rows of the ledger by their primary keys, of their values the beginning."""
    ordered = sorted(pks)
    found: dict[int | None, dict[str, Any]] = {}
    for start in range(0, len(ordered), history.MANY):
        rows = StateChange.objects.filter(pk__in=ordered[start : start + history.MANY]).annotate(
            shown=Substr("value", 1, BRIEF + 1, output_field=_TEXT),
            writes=history.count_of_writes(),
        )
        found |= {row["pk"]: row for row in rows.values(*_FACTS, "shown", "writes")}
    return found


def _entry(
    session: AgentSession, key: _Key, facts: Mapping[int | None, dict[str, Any]], written: set[int]
) -> Entry:
    now = facts.get(key.now)
    since = Since(cut(now["shown"], BRIEF) if now else None) if key.then != key.now else None
    row = facts[key.now if key.then is None else key.then]
    elsewhere = row["session_id"] != session.pk
    text = row["shown"] or "null"
    return Entry(
        change_pk=row["pk"],
        scope=row["scope"],
        key=row["key"],
        key_id=key.key_id,
        value=None if key.then is None else cut(text, BRIEF),
        note=row["note"],
        branches=text[0] in "{[" and len(text) > 2,
        is_cut=len(text) > BRIEF,
        changed=key.then in written,
        writer=writer_of(row),
        cause=row["cause"],
        timestamp=row["timestamp"],
        seq=row["seq"],
        event_id=row["event_id"],
        session_pk=row["session_id"],
        from_session=row["from_session"],
        elsewhere=elsewhere,
        writes=row["writes"],
        since=since,
        version=f"{key.then}.{key.now}.{key.then in written:d}",
    )


def _ghosts(session: AgentSession, event: Event | None) -> Column:
    """Return the `temp:` keys of the event's invocation: the last write of each up to the event."""
    if event is None:
        return Column(TEMP, [], 0)
    writes = TempWrite.objects.filter(
        session=session, invocation_id=event.invocation_id, seq__lte=event.seq
    ).order_by()
    counted = list(writes.values("key").annotate(newest=Max("pk"), writes=Count("pk")).order_by("key"))
    shown = counted[:GHOSTS_SHOWN]
    rows = (
        TempWrite.objects.filter(pk__in=[row["newest"] for row in shown])
        .annotate(shown=Substr("value", 1, GHOST_LIMIT + 1, output_field=_TEXT))
        .values("pk", "key", "note", "seq", "shown", "writer", "writer_name", "call_id")
    )
    found = {row["pk"]: row for row in rows}
    entries = [_ghost(found[row["newest"]], row["writes"], event) for row in shown]
    return Column(TEMP, entries, len(counted), len(counted) - len(entries))


def _ghost(row: Mapping[str, Any], writes: int, event: Event) -> Entry:
    return Entry(
        change_pk=0,
        scope=TEMP,
        key=row["key"],
        value=cut(row["shown"], GHOST_LIMIT),
        note=row["note"],
        changed=row["seq"] == event.seq,
        writer=writer_of(row),
        seq=row["seq"],
        writes=writes,
        version=f"{row['pk']}.{row['seq'] == event.seq:d}",
    )


def _untracked(session: AgentSession, event: Event | None) -> list[Untracked]:
    """Return what the event's invocation changed without an event; now, that of the invocation that ended last."""
    noticed = UntrackedKey.objects.filter(session=session)
    if event is None:
        noticed = noticed.filter(seq=session.last_seq)
    else:
        noticed = noticed.filter(invocation_id=event.invocation_id)
    return [
        Untracked(
            row.scope,
            row.key,
            cut(row.value, GHOST_LIMIT),
            cut(row.stored, GHOST_LIMIT),
            row.note,
            str(row.pk),
        )
        for row in noticed.order_by("pk")[:UNTRACKED_LIMIT]
    ]
