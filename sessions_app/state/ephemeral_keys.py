"""Recorded state that no scope stores: `temp:` ghost keys, and keys changed without an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import CharField, Count, F, Window
from django.db.models.functions import RowNumber, Substr

from sessions_app.state.board_entries import BoardEntry
from sessions_app.state.key_changes import TEMP, read_writer, scope_prefix, truncate
from sessions_app.store.models import AgentSession, Event, TempWrite, UntrackedKey

GHOST_LIMIT = 2000
"""Characters shown of a ghost key's value; pages cannot fetch the rest."""

MAX_GHOSTS = 200

MAX_UNTRACKED = 50
"""Maximum number of untracked keys on a board; the drift page shows more."""


@dataclass(frozen=True, slots=True)
class Ghosts:
    """The first `temp:` keys of an invocation, sorted, and their total count."""

    entries: list[BoardEntry]
    count: int


@dataclass(frozen=True, slots=True)
class UntrackedEntry:
    """A key that an invocation changed without an event, so that the change was not stored.

    Attributes:
        value: JSON; None: the key was removed.
        stored: JSON of the stored value; None: no such key.
    """

    scope: str
    key: str
    value: str | None
    stored: str | None
    note: str = ""
    version: str = ""

    @property
    def name(self) -> str:
        """The key with its prefix."""
        return scope_prefix(self.scope) + self.key


def read_ghosts(session: AgentSession, invocation_id: str, moment: int, like: str = "") -> Ghosts:
    """Return the `temp:` keys of an invocation, with the last write of each up to seq `moment`.

    `like` is a substring of the prefixed names, case-insensitive.
    """
    if not invocation_id:
        return Ghosts([], 0)
    writes = TempWrite.objects.filter(session=session, invocation_id=invocation_id, seq__lte=moment)
    rows = (
        writes.annotate(
            place=Window(RowNumber(), partition_by=F("key"), order_by=F("pk").desc()),
            writes=Window(Count("pk"), partition_by=F("key")),
        )
        .filter(place=1)
        .order_by("key")
        .values("pk", "key", "note", "seq", "writes", "writer", "writer_name", "call_id", "author")
        .annotate(shown=Substr("value", 1, GHOST_LIMIT + 1, output_field=CharField()))
    )
    shown = [row for row in rows if like.lower() in f"{scope_prefix(TEMP)}{row['key']}".lower()]
    return Ghosts([_ghost_entry(row, moment) for row in shown[:MAX_GHOSTS]], len(shown))


def _ghost_entry(row: Mapping[str, Any], moment: int) -> BoardEntry:
    changed = row["seq"] == moment
    return BoardEntry(
        change_pk=0,
        scope=TEMP,
        key=row["key"],
        value=truncate(row["shown"], GHOST_LIMIT),
        note=row["note"],
        changed=changed,
        writer=read_writer(row),
        author=row["author"],
        seq=row["seq"],
        writes=row["writes"],
        version=f"{row['pk']}.{changed:d}",
    )


def read_untracked(session: AgentSession, event: Event | None) -> list[UntrackedEntry]:
    """Return the keys that an event's invocation changed without an event; None: the last invocation."""
    noticed = UntrackedKey.objects.filter(session=session)
    if event is None:
        noticed = noticed.filter(seq=session.last_seq)
    else:
        noticed = noticed.filter(invocation_id=event.invocation_id)
    return [
        UntrackedEntry(
            row.scope,
            row.key,
            truncate(row.value, GHOST_LIMIT),
            truncate(row.stored, GHOST_LIMIT),
            row.note,
            str(row.pk),
        )
        for row in noticed.order_by("pk")[:MAX_UNTRACKED]
    ]
