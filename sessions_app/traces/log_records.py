"""Log records of invocations: their writes and queries."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from sessions_app.ids import SessionKey
from sessions_app.models import LOG_LEVELS, AgentSession, Event, LogRecord, Trace
from sessions_app.store import change_notification

PAGE_SIZE = 500
"""Records of a page."""

PART_SIZE = 100
"""Records shown below an event; the page of the log has all."""

EVENTS_SENT = 100
"""Maximum events in one message to a live page."""

USER = "user"
"""Author of a message to the agent."""

_IS_WARNING = Q(level__gte=logging.WARNING, level__lt=logging.ERROR)
_IS_ERROR = Q(level__gte=logging.ERROR)


@dataclass(frozen=True, slots=True)
class LogCount:
    """Number of records, and of warnings and errors among them."""

    records: int
    warnings: int
    errors: int


@dataclass(frozen=True, slots=True)
class LogPage:
    """Records in order. `next_pk` is the cursor of the next page; None: there is none."""

    records: list[LogRecord]
    next_pk: int | None


def save_log_records(key: SessionKey, records: Sequence[LogRecord]) -> bool:
    """Store records, without their session. Does nothing if it does not exist. May be repeated."""
    session_pk = AgentSession.objects.filter(**key._asdict()).values_list("pk", flat=True).first()
    if session_pk is not None and records:
        for record in records:
            record.pk, record.session_id = None, session_pk
        LogRecord.objects.bulk_create(records, ignore_conflicts=True)
        change_notification.notify_after_commit()
    return True


def read_page(session: AgentSession, invocation_id: str, level: int = 0, after_pk: int = 0) -> LogPage:
    """Return a page of an invocation's records from a level on. One query."""
    records = records_of(session, invocation_id, level).filter(pk__gt=after_pk)[: PAGE_SIZE + 1]
    page = list(records[:PAGE_SIZE])
    return LogPage(page, page[-1].pk if len(records) > PAGE_SIZE else None)


def read_page_after_event(session: AgentSession, event: Event) -> LogPage:
    """Return the first records that came after an event of their invocation. One query.

    Records before the first event that the recorder saw belong to the user's message.
    """
    ids = [event.event_id, ""] if event.author == USER else [event.event_id]
    records = records_of(session, event.invocation_id).filter(after_event_id__in=ids)[: PART_SIZE + 1]
    page = list(records[:PART_SIZE])
    return LogPage(page, page[-1].pk if len(records) > PART_SIZE else None)


def records_of(session: AgentSession, invocation_id: str, level: int = 0) -> QuerySet[LogRecord]:
    """Return the records of an invocation from a level on, in order."""
    rows = LogRecord.objects.filter(session=session, invocation_id=invocation_id, level__gte=level)
    return rows.order_by("pk")


def count_by_event(session: AgentSession, events: Iterable[Event]) -> dict[int, LogCount]:
    """Return the number of records after each of some events, by seq. One query."""
    by_id = {(event.invocation_id, event.event_id): event.seq for event in events}
    for event in events:
        if event.author == USER:
            by_id.setdefault((event.invocation_id, ""), event.seq)
    counts = count_records(session, {invocation_id for invocation_id, _ in by_id})
    return {by_id[key]: count for key, count in counts.items() if key in by_id}


def log_counts_after(session: AgentSession, after_pk: int) -> dict[int, LogCount]:
    """Return the numbers of records that changed after a record, by seq of the event. At most three queries."""
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
    named = Q(event_id__in={event_id for _, event_id in changed} - {""}) | Q(author=USER)
    rows = events.filter(named).only("seq", "event_id", "invocation_id", "author").order_by("seq")
    return count_by_event(session, list(rows))


def count_records(session: AgentSession, invocation_ids: Collection[str]) -> dict[tuple[str, str], LogCount]:
    """Return the number of records by invocation and the event after which they came. One query."""
    rows = (
        LogRecord.objects.filter(session=session, invocation_id__in=invocation_ids)
        .values_list("invocation_id", "after_event_id")
        .annotate(
            records=Count("pk"),
            warnings=Count("pk", filter=_IS_WARNING),
            errors=Count("pk", filter=_IS_ERROR),
        )
        .order_by()
    )
    return {(invocation, event): LogCount(*counts) for invocation, event, *counts in rows}


def count_invocation(session: AgentSession, invocation_id: str) -> LogCount | None:
    """Return the number of an invocation's records; None if it has none. One query."""
    counts = count_records(session, [invocation_id]).values()
    if not counts:
        return None
    return LogCount(
        sum(each.records for each in counts),
        sum(each.warnings for each in counts),
        sum(each.errors for each in counts),
    )


def traces_with_log(session: AgentSession, invocation_ids: Collection[str]) -> dict[str, int]:
    """Return the keys of the traces of those invocations that have log records, by invocation. One query."""
    records = LogRecord.objects.filter(session=session, invocation_id=OuterRef("invocation_id"))
    traces = Trace.objects.filter(Exists(records), session=session, invocation_id__in=invocation_ids)
    return dict(traces.values_list("invocation_id", "pk"))


def level_name(level: int) -> str:
    """Return the name of the level that a number reaches."""
    reached = [name for name, lowest in LOG_LEVELS.items() if level >= lowest]
    return reached[-1] if reached else "debug"
