"""Keys that events changed: old and new value and writer of each, by scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, Case, CharField, F, Q, Subquery, Value, When, Window
from django.db.models.functions import RowNumber, Substr

from sessions_app.store import scopes, short_texts
from sessions_app.store.database.combined_query import read_together
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import (
    AgentSession,
    ChangeCause,
    Event,
    Scope,
    StateChange,
    TempWrite,
)
from sessions_app.store.sessions.lineage import ancestors
from sessions_app.store.state import history

BRIEF_LENGTH = 160
"""Characters of a value's JSON in a timeline row."""

TEMP = "temp"

DELTA = "delta"
BY_HAND = "user"
"""Kind of the writer of an edit in DevUI."""
"""Writer kind of an explicit state delta, made by the event's author."""

PREFIX = {str(scope): prefix for scope, prefix in scopes.PREFIX.items()} | {TEMP: scopes.TEMP_PREFIX}


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key written by an event. Values are JSON; `old` is None for a new key, `new` for a removed one.

    `pk` is the ledger row, 0 for a ghost key.
    """

    scope: str
    key: str
    old: str | None
    new: str | None
    note: str
    cause: str
    writer: Writer
    pk: int = 0
    author: str = ""

    @property
    def name(self) -> str:
        """The key with its prefix."""
        return PREFIX[self.scope] + self.key

    @property
    def who(self) -> str:
        """The writer, in words."""
        return writer_text(self.writer, self.author, self.cause)

    @property
    def is_inferred(self) -> bool:
        """Tell whether the writer was inferred from the event."""
        return is_inferred(self.writer, self.author, self.cause)

    @property
    def is_repeated(self) -> bool:
        """Tell whether the same value was written again."""
        return self.old is not None and self.old == self.new


def read_key_changes(
    session: AgentSession, events: list[Event], *, length: int = BRIEF_LENGTH, max_each: int = 0
) -> dict[int, list[KeyChange]]:
    """Return the changes of events by `seq`: stored keys first, then `temp:` ghost keys. One query.

    Values are truncated to `length` characters, and up to `max_each` keys are read per event; 0 means no limit. The
    `user:` and `app:` keys of events copied by a fork are read from the original session: one more query per ancestor.
    """
    changes: dict[int, list[KeyChange]] = defaultdict(list)
    if not events:
        return changes
    seqs = {event.seq for event in events}
    ledger, ghosts = read_together(
        _ledger_rows(session, min(seqs), max(seqs), length, max_each), _ghost_rows(session, events, length)
    )
    for columns in [*sorted(ledger), *sorted(ghosts)]:
        row = dict(zip(_COLUMNS, columns, strict=True))
        if row["seq"] in seqs:
            changes[row["seq"]].append(_ledger_change(row, length))
    return changes


def _ledger_rows(session: AgentSession, first: int, last: int, length: int, max_each: int) -> Any:
    earlier = history.earlier_writes()
    value = _value_start(length)
    rows = StateChange.objects.filter(_written_by(session, first), seq__gte=max(first, 1), seq__lte=last)
    if max_each:
        row_number = Window(RowNumber(), partition_by=F("seq"), order_by="id")
        rows = StateChange.objects.filter(
            pk__in=rows.annotate(place=row_number).filter(place__lte=max_each).values("pk")
        )
    return (
        rows.order_by()
        .annotate(shown=value, old=Subquery(earlier.annotate(shown=value).values("shown")[:1]))
        .values_list(*_COLUMNS)
    )


def _written_by(session: AgentSession, first: int) -> Q:
    """Match the rows written by a session's events. Forks in their own realm have copies of all rows."""
    condition = Q(session=session)
    if session.forked_seq and first <= session.forked_seq and not session.realm:
        for ancestor in ancestors(session):
            condition |= Q(session=ancestor.pk, seq__lte=ancestor.last_seq, scope__in=(Scope.USER, Scope.APP))
    return condition


def _ghost_rows(session: AgentSession, events: list[Event], length: int) -> Any:
    return (
        TempWrite.objects.filter(
            session=session,
            invocation_id__in={event.invocation_id for event in events},
            seq__gte=events[0].seq,
            seq__lte=events[-1].seq,
        )
        .order_by()
        .annotate(
            scope=Value(TEMP),
            shown=_value_start(length),
            old=Value(None, output_field=CharField()),
            cause=Value(str(ChangeCause.APPEND)),
            removed=Value(False),
            inferred=Case(When(writer="", then=True), default=False, output_field=BooleanField()),
        )
        .values_list(*_COLUMNS)
    )


_WRITER = ("writer", "writer_name", "call_id", "author")
_COLUMNS = ("seq", "id", "scope", "key", "shown", "old", "note", "cause", "removed", "inferred", *_WRITER)


def _value_start(length: int) -> Any:
    """Return the first characters of the value, plus one that shows whether it is truncated."""
    return Substr("value", 1, length + 1 if length else 2**30, output_field=CharField())


def _ledger_change(row: Mapping[str, Any], length: int) -> KeyChange:
    return KeyChange(
        scope=row["scope"],
        key=row["key"],
        old=truncate(row["old"], length),
        new=None if row["removed"] else truncate(row["shown"], length),
        note=row["note"],
        cause=row["cause"],
        writer=read_writer(row),
        pk=0 if row["scope"] == TEMP else row["id"],
        author=row["author"],
    )


def read_writer(row: Mapping[str, Any]) -> Writer:
    """Return the writer of a ledger or ghost row."""
    inferred = bool(row.get("inferred", not row["writer"]))
    return Writer(row["writer"], row["writer_name"], row["call_id"], inferred)


def writer_text(writer: Writer, author: str = "", cause: str = "") -> str:
    """Return a writer in words. If none was recorded, the words come from the event's author and the cause.

    Args:
        writer: the writer.
        author: author of the event.
        cause: cause of the write, a `ChangeCause`.
    """
    if cause == ChangeCause.REWIND:
        return f"rewind by {writer.name or author}" if writer.name or author else "rewind"
    if author and writer.kind in ("", DELTA):
        return f"delta by {writer.name or author}"
    if writer.kind in ("", ChangeCause.SEED) and cause in (ChangeCause.IMPORT, ChangeCause.FORK):
        return f"{cause} from {writer.name}" if writer.name else str(cause)
    if writer.kind == BY_HAND and writer.name:
        return f"by hand: {writer.name}"
    return f"{writer.kind.replace('_', ' ')} {writer.name}".strip() or "unknown writer"


def is_inferred(writer: Writer, author: str = "", cause: str = "") -> bool:
    """Tell whether a writer was inferred from the event; that of a rewind is stored."""
    return writer.inferred and bool(writer.kind or author) and cause != ChangeCause.REWIND


def read_change_writer(row: StateChange) -> Writer:
    """Return the writer of a ledger row."""
    return Writer(row.writer, row.writer_name, row.call_id, row.inferred)


def truncate(text: str | None, length: int) -> str | None:
    """Return a text truncated to `length` characters, with an ellipsis; 0 means no limit."""
    return short_texts.truncate(text, length) if text and length else text


def scope_prefix(scope: Scope | str) -> str:
    """Return the key prefix of a scope."""
    return PREFIX[str(scope)]
