"""State terms as conditions on stored values and on the marks of all values a key ever had.

Numbers compare as numbers, texts by code point, in order by their first characters; true, false, null, lists and
objects are only equal or not equal.
"""

from __future__ import annotations

from typing import Any

from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    IContains,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from sessions_app import scopes
from sessions_app.search.query import StateTerm
from sessions_app.store import json_sql
from sessions_app.store.json_sql import (
    ANY,
    NUMBER,
    OTHER,
    PREFIX_LENGTH,
    STRING,
    JsonAt,
    JsonNumber,
    JsonPrefix,
)

EXACT_INTEGER = 2**53
"""Integers beyond this that differ may be equal to a database."""

COMPARE: dict[str, Any] = {
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "<": LessThan,
    "<=": LessThanOrEqual,
}


def value_condition(column: str, term: StateTerm) -> Q:
    """Return the condition that the JSON text in a column matches a term."""
    value = JsonAt(F(column), term.path) if term.path else F(column)
    is_there = Q(IsNull(value, False))
    if not term.op:
        return is_there
    if term.op == "~":
        return Q(IContains(value, scopes.dumps(term.value)[1:-1]))
    if term.op in COMPARE:
        return _order_condition(value, term.op, term.value)
    equal = _equal_condition(value, term.value)
    if term.op == "=":
        return equal
    return is_there & (~equal | Q(IsNull(JsonNumber(value), True)) if _is_number(term.value) else ~equal)


def mark_condition(term: StateTerm) -> Q:
    """Return the condition on the marks of all values that may match a term; `ANY` if any value may."""
    if term.path:
        return _type_range(OTHER)
    if not term.op:
        return Q(mark=ANY)
    if term.op == "=":
        return Q(mark=_mark_of(term.value))
    if term.op == "!=" and is_decided_by_marks(term):
        return _IS_VALUE_MARK & ~Q(mark=_mark_of(term.value))
    if term.op in COMPARE:
        return _mark_range(term.op, _mark_of(term.value))
    if term.op == "~":
        return marks_to_read(term) & (
            Q(mark__icontains=term.value)
            | ~Q(mark__startswith=STRING)
            | Q(GreaterThan(Length("mark"), PREFIX_LENGTH))
        )
    return Q(mark=ANY)


_IS_VALUE_MARK = Q(mark__gt=ANY)
"""Condition that a mark belongs to a specific value."""


def marks_to_read(term: StateTerm) -> Q:
    """Return the range of marks to read for a substring; number marks only if the text may be part of a number."""
    if set(term.value.lower()) <= _NUMBER_LETTERS:
        return _IS_VALUE_MARK
    return Q(mark__gt=ANY, mark__lt=NUMBER) | Q(mark__gte=_range_end(NUMBER))


_NUMBER_LETTERS = frozenset("0123456789+-.e" + "infinity")
"""Characters of JSON texts that have the mark of a number."""


def excluded_marks(term: StateTerm) -> list[Q]:
    """Return the ranges of marks of values that do not match a term for which `is_decided_by_marks` holds."""
    if not term.op:
        return []
    mark = _mark_of(term.value)
    if term.op == "!=":
        return [Q(mark=mark)]
    if term.op == "=":
        return [Q(mark__gt=ANY, mark__lt=mark), Q(mark__gt=mark)]
    kind = mark[0]
    if term.op in (">", ">="):
        return [
            Q(**{"mark__lte" if term.op == ">" else "mark__lt": mark}, mark__gt=ANY),
            Q(mark__gte=_range_end(kind)),
        ]
    return [Q(mark__gt=ANY, mark__lt=kind), Q(**{"mark__gte" if term.op == "<" else "mark__gt": mark})]


def is_decided_by_marks(term: StateTerm) -> bool:
    """Return whether every value whose mark satisfies `mark_condition` matches the term."""
    if term.path or term.op == "~":
        return False
    if term.op not in ("=", "!="):
        return True
    if _is_number(term.value):
        return not _is_long(term.value)
    mark = _mark_of(term.value)
    return len(mark) <= PREFIX_LENGTH and json_sql.UNKNOWN not in mark


def _equal_condition(value: Any, operand: Any) -> Q:
    if _is_number(operand) and not _is_long(operand):
        return Q(Exact(JsonNumber(value), float(operand)))
    return Q(Exact(value, scopes.dumps(operand)))


def _order_condition(value: Any, op: str, operand: Any) -> Q:
    if _is_number(operand):
        return Q(COMPARE[op](JsonNumber(value), _float(operand)))
    whole = scopes.dumps(operand)
    start = JsonPrefix(value)
    first = whole[:-1][:PREFIX_LENGTH]
    above = Q(GreaterThanOrEqual(start, first)) & Q(LessThan(start, "#"))
    below = Q(GreaterThanOrEqual(start, '"')) & Q(LessThan(start, first))
    equal = Q(Exact(value, whole))
    return {">": above & ~equal, ">=": above, "<": below, "<=": below | equal}[op]


def _type_range(kind: str) -> Q:
    """Return the range of marks of one JSON type."""
    return Q(mark__gte=kind, mark__lt=_range_end(kind))


def _mark_range(op: str, mark: str) -> Q:
    """Return the range of marks of one type above or below a mark. SQLite may seek the wrong of two lower bounds."""
    kind = mark[0]
    if op in (">", ">="):
        return Q(**{"mark__gt" if op == ">" else "mark__gte": mark}, mark__lt=_range_end(kind))
    return Q(**{"mark__lt" if op == "<" else "mark__lte": mark}, mark__gte=kind)


def _range_end(kind: str) -> str:
    """Return the upper bound of the marks of a type: the next letter."""
    return chr(ord(kind) + 1)


def _mark_of(value: Any) -> str:
    return json_sql.mark_of_number(_float(value)) if _is_number(value) else json_sql.mark(scopes.dumps(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_long(value: float) -> bool:
    return isinstance(value, int) and abs(value) > EXACT_INTEGER


def _float(value: float) -> float:
    """Return a number as databases compare it; infinity for an integer that is too large."""
    return float(str(value))
