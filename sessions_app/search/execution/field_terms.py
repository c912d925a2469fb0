"""Terms about fields: a session's columns, its events, logs, invocations and runs; and free words."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.db import connection
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Collate
from django.db.models.lookups import GreaterThanOrEqual, IContains, LessThan

from sessions_app.search.execution.scans import UnindexedTail
from sessions_app.search.execution.session_sets import FEW, SessionSet, membership_condition, row_sessions
from sessions_app.search.query.terms import NOT_JUDGED, Field, Term, Word
from sessions_app.search.query.times import parse_duration, parse_period, parse_time
from sessions_app.search.state_conditions import COMPARE
from sessions_app.store import expiry, realms
from sessions_app.store.events import event_text
from sessions_app.store.index import event_index
from sessions_app.store.index.event_index import HoldsPhrase
from sessions_app.store.models import (
    LOG_LEVELS,
    NOT_WITHDRAWN,
    AgentSession,
    Event,
    EventJudgement,
    LogRecord,
    ModelCall,
    Run,
    SessionTag,
    SessionTrait,
    Trace,
)


def find_by_column(term: Field) -> SessionSet:
    """Return the sessions that match a column term, ignoring its negation."""
    if term.name == "tag":
        return row_sessions(SessionTag.objects.filter(name=term.value))
    if term.name == "judged":
        return _judged_sessions(term.value)
    if term.name == "is":
        return _TRAIT_CONDITIONS[term.value]()
    return _COLUMNS[term.name](term)


def has_index(term: Term) -> bool:
    """Return whether an index of sessions finds the matches of a term directly."""
    return isinstance(term, Field) and (term.value if term.name == "is" else term.name) in _INDEXED


def id_starts_with(text: str) -> Q:
    """Return the condition that a session's id starts with a text. On SQLite a range, as ids sort by code point."""
    if connection.vendor == "sqlite":
        return Q(session_id__gte=text, session_id__lt=text + chr(sys.maxunicode))
    return Q(session_id__startswith=text)


def column_contains(column: str, text: str) -> Q:
    """Return the condition that a column contains a text, ignoring case.

    For ASCII text the "C" collation suffices, in which PostgreSQL folds case ten times as fast.
    """
    is_plain = connection.vendor == "postgresql" and text.isascii()
    return Q(IContains(Collate(F(column), "C") if is_plain else F(column), text))


_LOOKUP = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "=": "exact"}
_REVERSED_LOOKUP = {">": "lt", ">=": "lte", "<": "gt", "<=": "gte"}


def _number_condition(column: str) -> Callable[[Field], Q]:
    def condition(term: Field) -> Q:
        if term.op == "!=":
            return ~Q(**{column: int(term.value)})
        return Q(**{f"{column}__{_LOOKUP[term.op]}": int(term.value)})

    return condition


def _duration_condition(term: Field) -> Q:
    seconds, duration = parse_duration(term.value), F("updated_at") - F("created_at")
    if term.op in COMPARE:
        return Q(COMPARE[term.op](duration, seconds))
    equal = Q(GreaterThanOrEqual(duration, seconds)) & Q(LessThan(duration, seconds + 1))
    return ~equal if term.op == "!=" else equal


def _age_condition(column: str) -> Callable[[Field], Q]:
    """Return the condition on an age: a lower age is a later time."""
    return lambda term: Q(
        **{f"{column}__{_REVERSED_LOOKUP[term.op]}": time.time() - parse_duration(term.value)}
    )


_COLUMNS: dict[str, Callable[[Field], Q]] = {
    "app": lambda term: Q(app_name=term.value),
    "user": lambda term: Q(user_id=term.value),
    "session": lambda term: id_starts_with(term.value),
    "title": lambda term: (
        column_contains("title", term.value) | Q(title="") & column_contains("first_text", term.value)
    ),
    "origin": lambda term: _origin_condition(term.value),
    "events": _number_condition("last_seq"),
    "tokens": _number_condition("total_tokens"),
    "errors": _number_condition("error_count"),
    "problems": _number_condition("problem_count"),
    "duration": _duration_condition,
    "updated": _age_condition("updated_at"),
    "created": _age_condition("created_at"),
    "after": lambda term: Q(updated_at__gte=parse_time(term.value)),
    "before": lambda term: Q(updated_at__lt=parse_time(term.value)),
}


_INDEXED = frozenset({"app", "session", "updated", "after", "before", "pinned", "error", "idle", "expired"})
"""Terms, and values of `is:`, that an index of sessions covers."""


def _origin_condition(origin: str) -> Q:
    evals = Q(realm__startswith=realms.ATTEMPT)
    return evals if origin == "eval" else Q(origin=origin) & ~evals


def _running_sessions() -> SessionSet:
    return row_sessions(Run.objects.filter(status__in=Run.ACTIVE))


def _waiting_sessions() -> SessionSet:
    active = Run.objects.filter(session=OuterRef("session"), status__in=Run.ACTIVE)
    return row_sessions(Run.objects.filter(~Exists(active), status=Run.Status.WAITING))


def _expiry_condition(age: expiry.Age) -> Q:
    return Q(pk__in=expiry.filter_by_age(AgentSession.objects.all(), age).values("pk"))


_TRAIT_CONDITIONS: dict[str, Callable[[], SessionSet]] = {
    "pinned": lambda: Q(pinned_at__isnull=False),
    "error": lambda: Q(error_count__gt=0),
    "running": _running_sessions,
    "waiting": _waiting_sessions,
    "idle": lambda: _expiry_condition(expiry.Age.IDLE),
    "expired": lambda: _expiry_condition(expiry.Age.EXPIRED),
    "live": lambda: _origin_condition("live"),
    "imported": lambda: _origin_condition("import"),
    "forked": lambda: _origin_condition("fork"),
    "traced": lambda: _origin_condition("trace"),
    "eval": lambda: _origin_condition("eval"),
}


TRAIT_NAMES = frozenset({"kind", "author", "tool", "error", "branch", "problem"})
"""Names of the terms that compare a trait."""

ID_COLUMNS = {"event": "event_id", "invocation": "invocation_id"}
"""Names of the terms that name an id, and the columns of events with it."""


def trait_lookup(term: Field) -> tuple[QuerySet[SessionTrait], Callable[[event_text.Trait], bool]]:
    """Return the rows of a trait, and a predicate for traits of unindexed events. For an error a substring matches."""
    rows = SessionTrait.objects.filter(name=term.name)
    if term.name == SessionTrait.Name.ERROR:
        part = term.value.casefold()
        has_part = rows.filter(value__icontains=term.value)
        return has_part, lambda trait: trait[0] == term.name and part in trait[1].casefold()
    short = event_text.truncate_value(term.value)
    return rows.filter(value=short), lambda trait: trait == (term.name, short)


def find_by_trait(term: Field, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that have a trait."""
    rows, matches = trait_lookup(term)
    tail_pks = {event.session_id for event in tail.events_with_trait(matches)}
    return row_sessions(rows, tail_pks)


def find_by_id(term: Field, tail: UnindexedTail) -> SessionSet:
    """Return the sessions with an event of this id."""
    column = ID_COLUMNS[term.name]
    phrase = event_index.id_phrase(term.name, term.value)
    pks = event_index.find_sessions(phrase, FEW)
    if pks is None:
        return Q(Exists(Event.objects.filter(**{column: term.value}, session=OuterRef("pk"))))
    return pks | {event.session_id for event in tail.events if getattr(event, column) == term.value}


def select_judgements(value: str) -> QuerySet[EventJudgement]:
    """Return the judgements that `judged:VALUE` names; of `none` all, which it excludes."""
    if value == NOT_JUDGED:
        return EventJudgement.objects.filter(NOT_WITHDRAWN)
    return EventJudgement.objects.filter(verdict=value)


def _judged_sessions(value: str) -> SessionSet:
    sessions = row_sessions(select_judgements(value))
    return membership_condition(sessions, negated=True) if value == NOT_JUDGED else sessions


def is_judged(value: str, session: AgentSession) -> Q:
    """Return the condition that an event of a session is judged so; of `none` that nobody has judged it."""
    seqs = select_judgements(value).filter(session=session).values("seq")
    return ~Q(seq__in=seqs) if value == NOT_JUDGED else Q(seq__in=seqs)


LOG_NAMES = frozenset({"log", "level"})
"""Names of the terms about log records."""


def has_record(term: Field) -> Q:
    """Return the condition that a session has a matching log record."""
    return Q(Exists(_matching_records(term).filter(session=OuterRef("pk"))))


def precedes_record(term: Field, session: AgentSession) -> Q:
    """Return the condition that a matching log record came after an event of a session, before the next one.

    Records before the first event of their invocation belong to the user's message.
    """
    records = _matching_records(term).filter(session=session)
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
    records = _matching_records(term).filter(session__in=session_pks).order_by()
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
        if _precedes_record(event, record := by_session[event.session_id])
    }


def _precedes_record(event: Event, record: LogRecord) -> bool:
    if record.after_event_id:
        return event.event_id == record.after_event_id
    return event.author == "user" and event.invocation_id == record.invocation_id


def _matching_records(term: Field) -> QuerySet[LogRecord]:
    if term.name == "level":
        return LogRecord.objects.filter(level__gte=LOG_LEVELS[term.value])
    return LogRecord.objects.filter(column_contains("message", term.value))


INVOCATION_NAMES = frozenset({"during", "model", "code"})
"""Names of the terms about invocations and runs."""

MAX_INVOCATION_S = 86_400
"""Seconds. Invocations that began longer before a period are not searched, so that an index bounds them."""


def find_by_invocation(term: Field) -> SessionSet:
    """Return the sessions with a matching invocation or run."""
    of_session = Q(session=OuterRef("pk"))
    if term.name == "model":
        return Q(Exists(ModelCall.objects.filter(of_session, model=term.value)))
    if term.name == "code":
        is_version = Q(code_version__startswith=term.value) | Q(git_revision__startswith=term.value)
        return Q(Exists(Run.objects.filter(of_session, is_version)))
    start, end = parse_period(term.value)
    began = Trace.objects.filter(started_at__gte=start - MAX_INVOCATION_S, started_at__lt=end)
    return row_sessions(began.filter(Q(finished_at__gte=start) | Q(finished_at=None)))


def find_by_word(term: Word, tail: UnindexedTail) -> SessionSet:
    """Return the sessions that match a word or phrase, ignoring its negation."""
    is_named = id_starts_with(term.text) | ~Q(title="") & column_contains("title", term.text)
    phrase = term.phrase
    if phrase is None:
        return is_named
    pks = {event.session_id for event in tail.events_with_phrase(phrase)}
    matches = event_index.find_sessions(phrase, FEW)
    if matches is not None:
        named_pks = set(AgentSession.objects.filter(is_named).values_list("pk", flat=True)[: FEW + 1])
        if len(named_pks) <= FEW:
            return matches | pks | named_pks
    return Q(HoldsPhrase(F("pk"), phrase)) | Q(pk__in=pks) | is_named
