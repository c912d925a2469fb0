"""The state board: every scope as it was at an event, who last wrote each key, and what has changed since."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sessions_app import history
from sessions_app.attribution import UNKNOWN, Writer
from sessions_app.models import AgentSession, Cause, Event, Scope, StateChange, TempWrite, UntrackedKey
from sessions_app.timeline.changes import BRIEF, TEMP, cut, scope_prefix, writer_text

GHOST_LIMIT = 2000
"""Characters of a ghost's value: it has no row in the ledger that a page could fetch the rest from."""


UNTRACKED_LIMIT = 50
"""Keys changed without an event that a board shows; the page of the drift has more."""


@dataclass(frozen=True, slots=True)
class Since:
    """What became of a key after the moment looked at: its value now as brief JSON; None: it was removed."""

    value: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A key at the moment looked at.

    Attributes:
        change_pk: the ledger row that wrote it; 0 for a `temp:` ghost.
        value: its JSON, cut to `BRIEF` characters; None for a key that came later.
        branches: the value is an object or an array with something in it.
        is_cut: there is more of it than `value` shows.
        changed: the event looked at wrote it.
        seq, event_id: the writing event; `elsewhere` tells that it stands in another session.
        since: set when the key was written again after that moment.
    """

    change_pk: int
    scope: str
    key: str
    value: str | None
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
    since: Since | None = None

    @property
    def name(self) -> str:
        """The key as an agent writes it, with its prefix."""
        return scope_prefix(self.scope) + self.key

    @property
    def who(self) -> str:
        """Who wrote it, in words; of a `temp:` key, how long it lives."""
        return "ends with the invocation" if self.scope == TEMP else writer_text(self.writer)

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
    def opens(self) -> bool:
        """Tell whether there is more of its value than a line, and a row of the ledger that has it."""
        return bool(self.is_cut or (self.change_pk and self.branches))


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

    @property
    def name(self) -> str:
        """The key as an agent writes it, with its prefix."""
        return scope_prefix(self.scope) + self.key


@dataclass(frozen=True, slots=True)
class Board:
    """The state at an event, or now (`seq` None).

    Attributes:
        entries: in the order session, user, app, temp.
        later: keys that did not exist yet.
        untracked: what the event's invocation had changed without an event.
        mark: changes when the state of any scope does, whoever writes it.
        limit: entries of a scope that are shown, besides those that changed; 0: all.
    """

    seq: int | None
    entries: list[Entry]
    later: list[Entry]
    mark: str
    limit: int = 0
    untracked: list[Untracked] = field(default_factory=list)

    @property
    def shown(self) -> list[Entry]:
        """The entries within the limit."""
        places = _places(self.entries)
        return [
            entry
            for entry, place in zip(self.entries, places, strict=True)
            if not self.limit or place < self.limit or entry.changed
        ]

    @property
    def hidden(self) -> int:
        """How many entries the limit hides."""
        return len(self.entries) - len(self.shown)

    @property
    def changed_since(self) -> int:
        """How many keys are not now what they were."""
        return sum(entry.since is not None for entry in self.entries) + len(self.later)

    def count(self, scope: str) -> int:
        """Return how many keys of a scope there are; of all stored scopes for `merged`."""
        if scope == "merged":
            return sum(entry.scope != TEMP for entry in self.entries)
        return sum(entry.scope == scope for entry in self.entries)

    def tabs(self) -> list[tuple[str, int]]:
        """Return (name, number of keys) of each tab."""
        return [(name, self.count(name)) for name in ("merged", *map(str, SCOPES), TEMP)]


SCOPES = (Scope.SESSION, Scope.USER, Scope.APP)


def board(session: AgentSession, event: Event | None = None, *, limit: int = 0) -> Board:
    """Return the board at an event; without one, the board now. Keys of the (last) event count as changed."""
    then = history.state_at(session, event)
    moment = event.seq if event else session.last_seq
    rows = [row for _, part in then.scopes() for row in part]
    now = _now(session) if event else {(row.scope, row.key): row for row in rows}
    entries = [_entry(session, row, moment, now) for row in rows]
    known = {(row.scope, row.key) for row in rows}
    later = [_later(row) for name, row in now.items() if name not in known]
    ghosts = _ghosts(session, event) if event else []
    return Board(
        event.seq if event else None,
        entries + ghosts,
        later,
        state_mark_of(session),
        limit,
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
    positions = history.owners_at(session).positions
    noticed = UntrackedKey.objects.filter(session=session).order_by("-pk").values_list("pk", flat=True)
    return state_mark(session.last_seq, positions.get(Scope.USER), positions.get(Scope.APP), noticed.first())


def _places(entries: list[Entry]) -> list[int]:
    """Return the place of each entry within its scope, from 0 on."""
    counts: Counter[str] = Counter()
    places = []
    for entry in entries:
        places.append(counts[entry.scope])
        counts[entry.scope] += 1
    return places


def _now(session: AgentSession) -> dict[tuple[str, str], StateChange]:
    return {(row.scope, row.key): row for _, part in history.state_at(session).scopes() for row in part}


def _entry(
    session: AgentSession,
    row: StateChange,
    moment: int,
    now: dict[tuple[str, str], StateChange],
) -> Entry:
    here = row.session_id == session.pk
    text = row.value or "null"
    current = now.get((row.scope, row.key))
    changed_since = current is None or current.pk != row.pk
    return Entry(
        change_pk=row.pk,
        scope=row.scope,
        key=row.key,
        value=cut(text, BRIEF),
        note=row.note,
        branches=text[0] in "{[" and len(text) > 2,
        is_cut=len(text) > BRIEF,
        changed=here and row.seq == moment and row.seq > 0,
        writer=Writer(row.writer, row.writer_name, row.call_id, row.inferred),
        cause=row.cause,
        timestamp=row.timestamp,
        seq=row.seq,
        event_id=row.event_id,
        session_pk=row.session_id,
        from_session=row.from_session,
        elsewhere=not here,
        since=Since(cut(current.value, BRIEF) if current else None) if changed_since else None,
    )


def _later(row: StateChange) -> Entry:
    since = Since(cut(row.value, BRIEF))
    return Entry(row.pk, row.scope, row.key, None, seq=row.seq, event_id=row.event_id, since=since)


def _ghosts(session: AgentSession, event: Event) -> list[Entry]:
    """Return the `temp:` keys of the event's invocation: the last write of each up to the event."""
    writes = TempWrite.objects.filter(
        session=session, invocation_id=event.invocation_id, seq__lte=event.seq
    ).order_by("seq", "id")
    newest = {write.key: write for write in writes}
    return [_ghost(newest[key], event) for key in sorted(newest)]


def _untracked(session: AgentSession, event: Event | None) -> list[Untracked]:
    """Return what the event's invocation changed without an event; now, that of the invocation that ended last."""
    noticed = UntrackedKey.objects.filter(session=session)
    if event is None:
        noticed = noticed.filter(seq=session.last_seq)
    else:
        noticed = noticed.filter(invocation_id=event.invocation_id)
    return [
        Untracked(row.scope, row.key, cut(row.value, GHOST_LIMIT), cut(row.stored, GHOST_LIMIT), row.note)
        for row in noticed.order_by("pk")[:UNTRACKED_LIMIT]
    ]


def _ghost(write: TempWrite, event: Event) -> Entry:
    return Entry(
        change_pk=0,
        scope=TEMP,
        key=write.key,
        value=cut(write.value, GHOST_LIMIT),
        note=write.note,
        changed=write.seq == event.seq,
        writer=Writer(write.writer, write.writer_name, write.call_id, inferred=not write.writer),
        seq=write.seq,
    )
