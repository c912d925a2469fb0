"""Terms about columns of a session: names, numbers, times, and the values of `is:`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Collate
from django.db.models.lookups import GreaterThanOrEqual, IContains, LessThan

from sessions_app.search.execution.session_sets import FEW, SessionSet, row_sessions
from sessions_app.search.query.terms import Field, Term
from sessions_app.search.query.times import parse_duration, parse_time
from sessions_app.search.state_conditions import COMPARE
from sessions_app.store import expiry, realms
from sessions_app.store.models import AgentSession, Run, SessionTag


def find_by_column(term: Field) -> SessionSet:
    """Return the sessions that match a column term, ignoring its negation."""
    if term.name == "tag":
        return row_sessions(SessionTag.objects.filter(name=term.value))
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


def _running_sessions() -> set[int]:
    rows = Run.objects.filter(status__in=Run.ACTIVE)
    return set(rows.values_list("session_id", flat=True)[:FEW])


def _waiting_sessions() -> set[int]:
    active = Run.objects.filter(session=OuterRef("session"), status__in=Run.ACTIVE)
    rows = Run.objects.filter(~Exists(active), status=Run.Status.WAITING)
    return set(rows.values_list("session_id", flat=True)[:FEW])


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
    "eval": lambda: _origin_condition("eval"),
}
