"""Entries of the state board: a key at a point in time, its writer, and its current value if that differs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Substr

from sessions_app.state.key_changes import (
    BRIEF_LENGTH,
    TEMP,
    is_inferred,
    read_writer,
    scope_prefix,
    truncate,
    writer_text,
)
from sessions_app.store.events.attribution import UNKNOWN, Writer
from sessions_app.store.models import AgentSession, ChangeCause, StateChange
from sessions_app.store.state import history
from sessions_app.store.state.history import WRITES_COUNTED
from sessions_app.store.state.keys import KeyAt

ROWS_PER_QUERY = 20_000
"""Keys per query, since databases limit the number of parameters to some tens of thousands."""


@dataclass(frozen=True, slots=True)
class LaterValue:
    """Current value of a key that has changed since.

    Attributes:
        value: truncated JSON of the current value; None: the key was removed.
        differs_below: the truncated values are equal; they differ further on, or only in credentials.
    """

    value: str | None
    differs_below: bool = False


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """A key at a point in time.

    Attributes:
        change_pk: the ledger row of the write; 0 for a `temp:` ghost key.
        key_id: the key, or its hash if the key is long.
        value: JSON truncated to `BRIEF_LENGTH` characters; None for a key that was created later.
        branches: the value is a non-empty object or array.
        is_cut: whether `value` is truncated.
        changed: whether the selected event wrote it.
        seq, event_id: the writing event; `elsewhere`: it belongs to another session.
        writes: number of writes until then, counted up to `WRITES_COUNTED`.
        since: the current value, if it differs.
        version: changes with any of the above.
        same: the client has the entry already: only `scope` and `key_id` are set.
        is_aside: a watched key that does not match the search.
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
    author: str = ""
    cause: str = ChangeCause.APPEND
    timestamp: float | None = None
    seq: int = 0
    event_id: str = ""
    session_pk: int | None = None
    from_session: str = ""
    elsewhere: bool = False
    writes: int = 0
    since: LaterValue | None = None
    version: str = ""
    same: bool = False
    is_aside: bool = False

    @property
    def id(self) -> str:
        """Unique id of the entry on the board."""
        return scope_prefix(self.scope) + (self.key_id or self.key)

    @property
    def name(self) -> str:
        """The key with its prefix."""
        return scope_prefix(self.scope) + self.key

    @property
    def who(self) -> str:
        """The writer, in words."""
        return writer_text(self.writer, self.author, self.cause)

    @property
    def is_inferred(self) -> bool:
        """Tell whether the writer was inferred from the event."""
        return self.scope != TEMP and is_inferred(self.writer, self.author, self.cause)

    @property
    def place(self) -> str:
        """Session of the write: `here`, `elsewhere` or `deleted`; empty if no event or session wrote it."""
        if self.elsewhere and (self.session_pk or self.from_session):
            return "elsewhere" if self.session_pk else "deleted"
        return "here" if self.seq else ""

    @property
    def is_later(self) -> bool:
        """Tell whether the key was created after the point in time."""
        return self.value is None and not self.same

    @property
    def opens(self) -> bool:
        """Tell whether the entry can be expanded to show more of its value."""
        return bool(self.is_cut or (self.change_pk and self.branches))

    @property
    def is_counted_out(self) -> bool:
        """Tell whether the count of writes has reached its limit."""
        return self.writes >= WRITES_COUNTED


def unchanged_entry(key: KeyAt) -> BoardEntry:
    """Return the entry of a key that the client already has."""
    return BoardEntry(0, str(key.scope), "", None, key.key_id, same=True)


def read_entries(
    session: AgentSession, keys: Collection[KeyAt], moment: int, aside: Collection[KeyAt] = ()
) -> dict[KeyAt, BoardEntry]:
    """Return the entries of keys, with truncated values. One query.

    Args:
        session: the session.
        keys: the keys at the point in time and now.
        moment: seq of the selected event.
        aside: the keys that do not match the search.
    """
    facts = _read_ledger_rows({pk for key in keys for pk in (key.then, key.later) if pk is not None})
    return {key: _build_entry(session, key, facts, moment, is_aside=key in aside) for key in keys}


_FACTS = (
    *("pk", "scope", "key", "note", "cause", "timestamp", "session_id", "from_session", "seq", "event_id"),
    *("writer", "writer_name", "call_id", "author", "inferred"),
)


def _read_ledger_rows(pks: Collection[int]) -> dict[int | None, dict[str, Any]]:
    """Return ledger rows by primary key."""
    ordered = sorted(pks)
    facts: dict[int | None, dict[str, Any]] = {}
    for start in range(0, len(ordered), ROWS_PER_QUERY):
        rows = StateChange.objects.filter(pk__in=ordered[start : start + ROWS_PER_QUERY]).annotate(
            shown=Substr("value", 1, BRIEF_LENGTH + 1, output_field=CharField()),
            writes=history.write_count(),
        )
        facts |= {row["pk"]: row for row in rows.values(*_FACTS, "shown", "writes")}
    return facts


def _build_entry(
    session: AgentSession,
    key: KeyAt,
    facts: Mapping[int | None, dict[str, Any]],
    moment: int,
    *,
    is_aside: bool,
) -> BoardEntry:
    row = facts[key.later if key.then is None else key.then]
    text = row["shown"] or "null"
    changed = is_written_by(key, moment)
    return BoardEntry(
        change_pk=row["pk"],
        scope=row["scope"],
        key=row["key"],
        key_id=key.key_id,
        value=None if key.then is None else truncate(text, BRIEF_LENGTH),
        note=row["note"],
        branches=text[0] in "{[" and len(text) > 2,
        is_cut=len(text) > BRIEF_LENGTH,
        changed=changed,
        writer=read_writer(row),
        author=row["author"],
        cause=row["cause"],
        timestamp=row["timestamp"],
        seq=row["seq"],
        event_id=row["event_id"],
        session_pk=row["session_id"],
        from_session=row["from_session"],
        elsewhere=row["session_id"] != session.pk,
        writes=row["writes"],
        since=None if key.is_same else _later_value(key, facts),
        version=f"{key.then}.{key.later}.{changed:d}{is_aside:d}",
        is_aside=is_aside,
    )


def _later_value(key: KeyAt, facts: Mapping[int | None, dict[str, Any]]) -> LaterValue:
    if key.later is None:
        return LaterValue(None)
    text = facts[key.later]["shown"]
    return LaterValue(truncate(text, BRIEF_LENGTH), key.then is not None and facts[key.then]["shown"] == text)


def is_written_by(key: KeyAt, moment: int) -> bool:
    """Tell whether the session's event with seq `moment` wrote the value of the key at that point."""
    return key.then is not None and key.seq == moment and moment > 0
