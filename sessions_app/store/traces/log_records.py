"""Writes and queries of the log records of invocations."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Substr

from sessions_app.store.database import change_notification
from sessions_app.store.database.statements import FIND_SESSION
from sessions_app.store.models import LOG_LEVELS, AgentSession, Event, LogRecord, Trace
from sessions_app.store.session_key import SessionKey

MAX_WRITTEN = 500
"""Maximum records written in one transaction, since appends may wait for it."""

PAGE_SIZE = 500
"""Records of a page."""

NEAR_RECORDS = 20
"""Records shown before the record that a link names."""

EVENT_RECORDS = 100
"""Maximum records shown below an event; the page of the log has all."""

COMPARED_CHARS = 500
"""Characters of two messages that are compared to tell whether one repeats the other."""

EVENTS_SENT = 100
"""Maximum events in one message to a live page."""


class NewLogRecord(NamedTuple):
    """Columns of a log record that is to be stored. A model instance takes ten times as long to make."""

    invocation_id: str
    ref: str
    number: int
    at: float
    level: int
    source: str
    message: str
    logger: str = ""
    agent: str = ""
    tool: str = ""
    call_id: str = ""
    after_event_id: str = ""


_COLUMNS = f"sessions_app_logrecord (session_id, {', '.join(NewLogRecord._fields)})"
_INSERT = f"INSERT INTO {_COLUMNS} VALUES (%s, {', '.join(['%s'] * len(NewLogRecord._fields))})"  # noqa: S608 - our own table
_COPY = f"COPY {_COLUMNS} FROM STDIN"
_STORED_NUMBERS = (
    "SELECT number FROM sessions_app_logrecord WHERE session_id = %s AND ref = %s AND number >= %s"
)

USER = "user"
"""Author of messages to the agent."""

_IS_WARNING = Q(level__gte=logging.WARNING, level__lt=logging.ERROR)
_IS_ERROR = Q(level__gte=logging.ERROR)


@dataclass(frozen=True, slots=True)
class LogCount:
    """Number of records, and of warnings and errors among them.

    Attributes:
        is_repeat: all its warnings and errors have one text, which the invocation's log has before, too.
    """

    records: int
    warnings: int
    errors: int
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class LogRecordPage:
    """A page of records in order. `next_pk` is the cursor of the next page; None on the last page."""

    records: list[LogRecord]
    next_pk: int | None


def save_log_records(key: SessionKey, records: Sequence[NewLogRecord]) -> bool:
    """Store records of a session that have the same `ref`. Does nothing if the session does not exist.

    Returns False if only some of very many records were stored; then call it again.
    """
    if not records:
        return True
    with connection.cursor() as cursor:  # plain SQL: this runs with every invocation
        cursor.execute(FIND_SESSION, key)
        row = cursor.fetchone()
        if row is None:
            return True
        session_pk: int = row[0]
        cursor.execute(_STORED_NUMBERS, (session_pk, records[0].ref, records[0].number))
        stored_numbers = {number for (number,) in cursor.fetchall()}  # of an earlier call, or a retried write
    missing = [record for record in records if record.number not in stored_numbers]
    with transaction.atomic(savepoint=False):
        _insert_rows([(session_pk, *record) for record in missing[:MAX_WRITTEN]])
    change_notification.notify_after_commit()
    return len(missing) <= MAX_WRITTEN


def _insert_rows(rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows. The end of a run waits for its log, and `bulk_create` takes five times as long.

    On PostgreSQL with COPY, because psycopg's `executemany` takes three times as long.
    """
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.executemany(_INSERT, rows)
        else:
            with connection.wrap_database_errors, cursor.copy(_COPY) as copy:
                for row in rows:
                    copy.write_row(row)


def read_page(session: AgentSession, invocation_id: str, level: int = 0, after_pk: int = 0) -> LogRecordPage:
    """Return a page of an invocation's records of at least a level. One query."""
    records = read_invocation_records(session, invocation_id, level).filter(pk__gt=after_pk)[: PAGE_SIZE + 1]
    page = list(records[:PAGE_SIZE])
    return LogRecordPage(page, page[-1].pk if len(records) > PAGE_SIZE else None)


def cursor_before(session: AgentSession, invocation_id: str, pk: int) -> int:
    """Return the cursor of the page that begins some records before a record; 0: the first page. One query."""
    earlier = LogRecord.objects.filter(session=session, invocation_id=invocation_id, pk__lt=pk)
    pks = list(earlier.order_by("-pk").values_list("pk", flat=True)[: NEAR_RECORDS + 1])
    return pks[-1] if len(pks) > NEAR_RECORDS else 0


def read_page_after_event(session: AgentSession, event: Event) -> LogRecordPage:
    """Return the first records that follow an event. One query.

    Records before the first event that the recorder saw belong to the user's message.
    """
    ids = [event.event_id, ""] if event.author == USER else [event.event_id]
    records = read_invocation_records(session, event.invocation_id).filter(after_event_id__in=ids)[
        : EVENT_RECORDS + 1
    ]
    page = list(records[:EVENT_RECORDS])
    return LogRecordPage(page, page[-1].pk if len(records) > EVENT_RECORDS else None)


def read_invocation_records(session: AgentSession, invocation_id: str, level: int = 0) -> QuerySet[LogRecord]:
    """Return the records of an invocation of at least a level, in order."""
    rows = LogRecord.objects.filter(session=session, invocation_id=invocation_id, level__gte=level)
    return rows.order_by("pk")


def count_by_event(session: AgentSession, events: Iterable[Event]) -> dict[int, LogCount]:
    """Return the numbers of records that follow events, by seq. One query."""
    by_id = {(event.invocation_id, event.event_id): event.seq for event in events}
    for event in events:
        if event.author == USER:
            by_id.setdefault((event.invocation_id, ""), event.seq)
    counts = count_records(session, {invocation_id for invocation_id, _ in by_id})
    return {by_id[key]: count for key, count in counts.items() if key in by_id}


def log_counts_after(session: AgentSession, after_pk: int) -> dict[int, LogCount]:
    """Return the numbers of records of events with records newer than `after_pk`, by seq. At most three queries."""
    changed = set(
        LogRecord.objects.filter(session=session, pk__gt=after_pk)
        .order_by()
        .values_list("invocation_id", "after_event_id")
        .distinct()[:EVENTS_SENT]
    )
    if not changed:
        return {}
    events = Event.objects.filter(
        session=session, invocation_id__in={invocation for invocation, _ in changed}
    )
    condition = Q(event_id__in={event_id for _, event_id in changed} - {""}) | Q(author=USER)
    rows = events.filter(condition).only("seq", "event_id", "invocation_id", "author").order_by("seq")
    return count_by_event(session, list(rows))


def count_records(session: AgentSession, invocation_ids: Collection[str]) -> dict[tuple[str, str], LogCount]:
    """Return the numbers of records by the ids of their invocation and of the event that they follow. One query."""
    start = Substr("message", 1, COMPARED_CHARS)
    rows = (
        LogRecord.objects.filter(session=session, invocation_id__in=invocation_ids)
        .values_list("invocation_id", "after_event_id")
        .annotate(
            first_pk=Min("pk"),
            records=Count("pk"),
            warnings=Count("pk", filter=_IS_WARNING),
            errors=Count("pk", filter=_IS_ERROR),
            least_text=Min(start, filter=_IS_WARNING | _IS_ERROR),
            greatest_text=Max(start, filter=_IS_WARNING | _IS_ERROR),
        )
        .order_by("first_pk")
    )
    counts: dict[tuple[str, str], LogCount] = {}
    known: set[tuple[str, str | None]] = set()
    for invocation, event, _, records, warnings, errors, least, greatest in rows:
        is_repeat = least is not None and least == greatest and (invocation, least) in known
        counts[invocation, event] = LogCount(records, warnings, errors, is_repeat)
        known |= {(invocation, least), (invocation, greatest)}
    return counts


def count_invocation(session: AgentSession, invocation_id: str) -> LogCount | None:
    """Return the numbers of an invocation's records; None if it has none. One query."""
    counts = count_records(session, [invocation_id]).values()
    if not counts:
        return None
    return LogCount(
        sum(count.records for count in counts),
        sum(count.warnings for count in counts),
        sum(count.errors for count in counts),
    )


def trace_with_log() -> Subquery:
    """Return the key of the trace of a row's invocation, if that has log records."""
    invocation = {"session": OuterRef("session"), "invocation_id": OuterRef("invocation_id")}
    traces = Trace.objects.filter(Exists(LogRecord.objects.filter(**invocation)), **invocation)
    return Subquery(traces.values("pk")[:1])


def level_name(level: int) -> str:
    """Return the name of the highest level that a number reaches."""
    reached = [name for name, lowest in LOG_LEVELS.items() if level >= lowest]
    return reached[-1] if reached else "debug"
