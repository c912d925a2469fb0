"""Terms about the log of a session: `log:` and `level:`."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, Max, OuterRef, Q, QuerySet

from sessions_app.search.execution.column_terms import column_contains
from sessions_app.search.query.terms import Field
from sessions_app.store.models import LOG_LEVELS, AgentSession, Event, LogRecord

LOG_NAMES = frozenset({"log", "level"})
"""Names of the terms about log records."""


def has_record(term: Field) -> Q:
    """Return the condition that a session has a matching log record."""
    return Q(Exists(_records(term).filter(session=OuterRef("pk"))))


def precedes_record(term: Field, session: AgentSession) -> Q:
    """Return the condition that a matching log record came after an event of a session, before the next one.

    Records before the first event of their invocation belong to the user's message.
    """
    records = _records(term).filter(session=session)
    at_start = records.filter(after_event_id="").values("invocation_id")
    after_event = records.exclude(after_event_id="").values("after_event_id")
    return Q(event_id__in=after_event) | Q(author="user", invocation_id__in=at_start)


@dataclass(frozen=True, slots=True)
class LogHit:
    """A log record, and the seq of the event that it follows."""

    seq: int
    message: str


def newest_hits(term: Field, session_pks: list[int]) -> dict[int, LogHit]:
    """Return the newest matching record of each session. Two queries."""
    records = _records(term).filter(session__in=session_pks).order_by()
    newest = records.values("session").annotate(newest=Max("pk")).values("newest")
    by_session = {record.session_id: record for record in LogRecord.objects.filter(pk__in=newest)}
    ids = {record.after_event_id for record in by_session.values()} - {""}
    at_start = {record.invocation_id for record in by_session.values() if not record.after_event_id}
    events = Event.objects.filter(
        Q(event_id__in=ids) | Q(author="user", invocation_id__in=at_start), session__in=by_session
    )
    return {
        event.session_id: LogHit(event.seq, record.message)
        for event in events.only("session", "event_id", "seq", "invocation_id", "author").order_by("-seq")
        if _precedes(event, record := by_session[event.session_id])
    }


def _precedes(event: Event, record: LogRecord) -> bool:
    if record.after_event_id:
        return event.event_id == record.after_event_id
    return event.author == "user" and event.invocation_id == record.invocation_id


def _records(term: Field) -> QuerySet[LogRecord]:
    if term.name == "level":
        return LogRecord.objects.filter(level__gte=LOG_LEVELS[term.value])
    return LogRecord.objects.filter(column_contains("message", term.value))
