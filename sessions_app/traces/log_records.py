"""Log records of invocations: their writes and queries."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.db.models import Count, Max, Q, QuerySet

from sessions_app.ids import SessionKey
from sessions_app.models import AgentSession, LogRecord
from sessions_app.store import change_notification

PAGE_SIZE = 500
"""Records of a page."""

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""Lowest number of each level."""


@dataclass(frozen=True, slots=True)
class LogCount:
    """Number of records and of warnings among them, and the highest level."""

    records: int
    warnings: int
    level: int

    @property
    def level_name(self) -> str:
        """Name of the highest level."""
        return level_name(self.level)


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


def records_of(session: AgentSession, invocation_id: str, level: int = 0) -> QuerySet[LogRecord]:
    """Return the records of an invocation from a level on, in order."""
    rows = LogRecord.objects.filter(session=session, invocation_id=invocation_id, level__gte=level)
    return rows.order_by("pk")


def count_records(session: AgentSession, invocation_ids: Collection[str]) -> dict[tuple[str, str], LogCount]:
    """Return the number of records by invocation and the event after which they came. One query."""
    rows = (
        LogRecord.objects.filter(session=session, invocation_id__in=invocation_ids)
        .values_list("invocation_id", "after_event_id")
        .annotate(Count("pk"), Count("pk", filter=Q(level__gte=logging.WARNING)), Max("level"))
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
        max(each.level for each in counts),
    )


def level_name(level: int) -> str:
    """Return the name of the level that a number reaches."""
    reached = [name for name, lowest in LEVELS.items() if level >= lowest]
    return reached[-1] if reached else "debug"
