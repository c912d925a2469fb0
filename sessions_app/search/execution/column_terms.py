"""Terms about a session itself: its names, its numbers, its times, and what `is:` may say of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Collate
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, IContains, LessThan, LessThanOrEqual

from sessions_app import expiry, realms
from sessions_app.models import AgentSession, Run, SessionTag
from sessions_app.search.execution.session_sets import FEW_SHARED, ConditionSet, SessionSet, sessions_of_rows
from sessions_app.search.query import Field, parse_duration, parse_time


def find_by_column(term: Field) -> SessionSet:
    """Return the sessions of a term about themselves, without its negation."""
    if term.name == "tag":
        return sessions_of_rows(SessionTag.objects.filter(name=term.value))
    if term.name == "is":
        found = _TRAIT_CONDITIONS[term.value]()
        return ConditionSet(found, is_sought=term.value in _INDEXED) if isinstance(found, Q) else found
    return ConditionSet(_COLUMNS[term.name](term), is_sought=term.name in _INDEXED)


def id_starts_with(text: str) -> Q:
    """Return the condition that a session's id begins so: a range of an index, where ids are sorted by code points."""
    if connection.vendor == "sqlite":
        return Q(session_id__gte=text, session_id__lt=text + chr(sys.maxunicode))
    return Q(session_id__startswith=text)


def column_contains(column: str, text: str) -> Q:
    """Return the condition that a column holds a text in any case.

    Of a text in ASCII only letters in ASCII differ by case: PostgreSQL folds them ten times as fast as those of all
    languages.
    """
    is_plain = connection.vendor == "postgresql" and text.isascii()
    return Q(IContains(Collate(F(column), "C") if is_plain else F(column), text))


_COMPARE: dict[str, Any] = {
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "<": LessThan,
    "<=": LessThanOrEqual,
}
_LOOKUP = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "=": "exact"}
_REVERSED_LOOKUP = {">": "lt", ">=": "lte", "<": "gt", "<=": "gte"}


def _number_condition(column: str) -> Callable[[Field], Q]:
    def condition(term: Field) -> Q:
        if term.op == "!=":
            return ~Q(**{column: int(term.value)})
        return Q(**{f"{column}__{_LOOKUP[term.op]}": int(term.value)})

    return condition


def _duration_condition(term: Field) -> Q:
    seconds, lasted = parse_duration(term.value), F("updated_at") - F("created_at")
    if term.op in _COMPARE:
        return Q(_COMPARE[term.op](lasted, seconds))
    equal = Q(GreaterThanOrEqual(lasted, seconds)) & Q(LessThan(lasted, seconds + 1))
    return ~equal if term.op == "!=" else equal


def _age_condition(column: str) -> Callable[[Field], Q]:
    """Return the condition on an age: the younger, the later the time."""
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
    "duration": _duration_condition,
    "updated": _age_condition("updated_at"),
    "created": _age_condition("created_at"),
    "after": lambda term: Q(updated_at__gte=parse_time(term.value)),
    "before": lambda term: Q(updated_at__lt=parse_time(term.value)),
}


_INDEXED = frozenset({"app", "session", "updated", "after", "before", "pinned", "error", "idle", "expired"})
"""Terms, and values of `is:`, by which an index of sessions is sorted or made."""


def _origin_condition(origin: str) -> Q:
    evals = Q(realm__startswith=realms.ATTEMPT)
    return evals if origin == "eval" else Q(origin=origin) & ~evals


def _running_sessions() -> set[int]:
    rows = Run.objects.filter(status__in=Run.ACTIVE)
    return set(rows.values_list("session_id", flat=True)[:FEW_SHARED])


def _waiting_sessions() -> set[int]:
    active = Run.objects.filter(session=OuterRef("session"), status__in=Run.ACTIVE)
    rows = Run.objects.filter(~Exists(active), status=Run.Status.WAITING)
    return set(rows.values_list("session_id", flat=True)[:FEW_SHARED])


def _expiry_condition(age: expiry.Age) -> Q:
    return Q(pk__in=expiry.filter_by_age(AgentSession.objects.all(), age).values("pk"))


_TRAIT_CONDITIONS: dict[str, Callable[[], Q | set[int]]] = {
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
