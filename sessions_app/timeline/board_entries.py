"""The entries of the state board: a key at a moment, who wrote it, and what it is now when that is something else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Substr

from sessions_app.events.attribution import UNKNOWN, Writer
from sessions_app.models import AgentSession, ChangeCause, StateChange
from sessions_app.state import history
from sessions_app.state.diff import KeyAt
from sessions_app.state.history import WRITES_COUNTED
from sessions_app.timeline.key_changes import (
    BRIEF_LENGTH,
    TEMP,
    is_inferred,
    scope_prefix,
    truncate,
    writer_of,
    writer_text,
)

ROWS_PER_QUERY = 20_000
"""Rows that a query names: a database takes some tens of thousands of parameters."""


@dataclass(frozen=True, slots=True)
class LaterValue:
    """What became of a key after the moment looked at.

    Attributes:
        value: its value now as brief JSON; None: it was removed.
        differs_below: what is shown of it is the same: the values differ further on, or in credentials alone.
    """

    value: str | None
    differs_below: bool = False


@dataclass(frozen=True, slots=True)
class BoardEntry:
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
        since: set when it has another value now.
        version: another one when anything above is different.
        same: the reader has it already: nothing but `scope` and `key_id` is filled in.
        is_aside: it is no answer to what the board was searched for, and is there because it is watched.
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
        """What tells it from all others on the board."""
        return scope_prefix(self.scope) + (self.key_id or self.key)

    @property
    def name(self) -> str:
        """The key as an agent writes it, with its prefix."""
        return scope_prefix(self.scope) + self.key

    @property
    def who(self) -> str:
        """Who wrote it, in words."""
        return writer_text(self.writer, self.author, self.cause)

    @property
    def is_inferred(self) -> bool:
        """Tell whether the writer was read off the event."""
        return self.scope != TEMP and is_inferred(self.writer, self.author, self.cause)

    @property
    def place(self) -> str:
        """Where it was written: `here`, `elsewhere`, in a session that is `deleted`; empty: by no event or session."""
        if self.elsewhere and (self.session_pk or self.from_session):
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


def unchanged_entry(key: KeyAt) -> BoardEntry:
    """Return the entry of a key that the reader has as it is."""
    return BoardEntry(0, str(key.scope), "", None, key.key_id, same=True)


def entries_of(
    session: AgentSession, keys: Collection[KeyAt], moment: int, aside: Collection[KeyAt] = ()
) -> dict[KeyAt, BoardEntry]:
    """Return the entries of keys, of their values only the beginning. One query.

    Args:
        session: whose state is looked at.
        keys: as they were at the moment, and are now.
        moment: seq of the event looked at.
        aside: those of the keys that are no answer to a search.
    """
    facts = _facts({pk for key in keys for pk in (key.then, key.later) if pk is not None})
    return {key: _entry(session, key, facts, moment, is_aside=key in aside) for key in keys}


_FACTS = (
    *("pk", "scope", "key", "note", "cause", "timestamp", "session_id", "from_session", "seq", "event_id"),
    *("writer", "writer_name", "call_id", "author", "inferred"),
)


def _facts(pks: Collection[int]) -> dict[int | None, dict[str, Any]]:
    """Return rows of the ledger by their primary keys."""
    ordered = sorted(pks)
    found: dict[int | None, dict[str, Any]] = {}
    for start in range(0, len(ordered), ROWS_PER_QUERY):
        rows = StateChange.objects.filter(pk__in=ordered[start : start + ROWS_PER_QUERY]).annotate(
            shown=Substr("value", 1, BRIEF_LENGTH + 1, output_field=CharField()),
            writes=history.count_of_writes(),
        )
        found |= {row["pk"]: row for row in rows.values(*_FACTS, "shown", "writes")}
    return found


def _entry(
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
        writer=writer_of(row),
        author=row["author"],
        cause=row["cause"],
        timestamp=row["timestamp"],
        seq=row["seq"],
        event_id=row["event_id"],
        session_pk=row["session_id"],
        from_session=row["from_session"],
        elsewhere=row["session_id"] != session.pk,
        writes=row["writes"],
        since=None if key.is_same else _since(key, facts),
        version=f"{key.then}.{key.later}.{changed:d}{is_aside:d}",
        is_aside=is_aside,
    )


def _since(key: KeyAt, facts: Mapping[int | None, dict[str, Any]]) -> LaterValue:
    if key.later is None:
        return LaterValue(None)
    text = facts[key.later]["shown"]
    return LaterValue(truncate(text, BRIEF_LENGTH), key.then is not None and facts[key.then]["shown"] == text)


def is_written_by(key: KeyAt, moment: int) -> bool:
    """Tell whether an event of the session, by its seq, gave the key the value that it has then."""
    return key.then is not None and key.seq == moment and moment > 0
