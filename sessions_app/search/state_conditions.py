"""State terms as conditions on stored values and on the marks of all values a key ever had.

Numbers compare as numbers, texts by code point, in order by their first characters; true, false, null, lists and
objects are only equal or not equal.
"""

from __future__ import annotations

from typing import Any

from django.db.models import BigIntegerField, F, FloatField, Q, Value
from django.db.models.lookups import (
    Exact,
    GreaterThan,
    GreaterThanOrEqual,
    IContains,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from sessions_app.search.query.terms import StateTerm
from sessions_app.store import scopes
from sessions_app.store.database import json_sql
from sessions_app.store.database.json_sql import ANY, PREFIX_LENGTH, JsonAt, JsonNumber, JsonPrefix

EXACT_INTEGER = 2**53
"""Numbers from here on may have the mark of others."""

LARGEST_INTEGER = 2**63 - 1
"""Integers beyond this that differ may be equal to SQLite."""

COMPARE: dict[str, Any] = {
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
    "<": LessThan,
    "<=": LessThanOrEqual,
}


def value_condition(term: StateTerm) -> Q:
    """Return the condition that the JSON text in the column `value` matches a term."""
    value = JsonAt(F("value"), term.path) if term.path else F("value")
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
    if term.path or term.op not in ("=", *COMPARE):
        return Q(mark=ANY)
    mark = _number_mark(term.value)
    if term.op == "=":
        return Q(mark=mark)
    is_shared = _is_number(term.value) and _is_long(term.value)
    return _mark_range(f"{term.op[0]}=" if is_shared else term.op, mark)


def is_decided_by_marks(term: StateTerm) -> bool:
    """Return whether every value whose mark satisfies `mark_condition` matches the term."""
    if term.path or term.op in ("~", "!="):
        return False
    if _is_number(term.value):
        return not _is_long(term.value)
    if term.op != "=":
        return True
    mark = _number_mark(term.value)
    return len(mark) <= PREFIX_LENGTH and json_sql.UNKNOWN not in mark


def _equal_condition(value: Any, operand: Any) -> Q:
    if _is_number(operand) and abs(operand) <= LARGEST_INTEGER:
        return Q(Exact(JsonNumber(value), _comparable_number(operand)))
    return Q(Exact(value, scopes.dumps(operand)))


def _order_condition(value: Any, op: str, operand: Any) -> Q:
    if _is_number(operand):
        return Q(COMPARE[op](JsonNumber(value), _comparable_number(operand)))
    operand_json = scopes.dumps(operand)
    start = JsonPrefix(value)
    first = operand_json[:-1][:PREFIX_LENGTH]
    above = Q(GreaterThanOrEqual(start, first)) & Q(LessThan(start, "#"))
    below = Q(GreaterThanOrEqual(start, '"')) & Q(LessThan(start, first))
    equal = Q(Exact(value, operand_json))
    return {">": above & ~equal, ">=": above, "<": below, "<=": below | equal}[op]


def _mark_range(op: str, mark: str) -> Q:
    """Return the range of marks of one type above or below a mark. SQLite may seek the wrong of two lower bounds."""
    kind = mark[0]
    if op in (">", ">="):
        return Q(**{"mark__gt" if op == ">" else "mark__gte": mark}, mark__lt=chr(ord(kind) + 1))
    return Q(**{"mark__lt" if op == "<" else "mark__lte": mark}, mark__gte=kind)


def _number_mark(value: Any) -> str:
    return (
        json_sql.number_mark(_to_double(value)) if _is_number(value) else json_sql.mark(scopes.dumps(value))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_long(value: float) -> bool:
    return abs(value) >= EXACT_INTEGER


def _comparable_number(value: float) -> Value:
    """Return a number for a comparison, as an integer if it is one that every database can hold."""
    is_whole = isinstance(value, int) or value.is_integer()
    if is_whole and abs(value) <= LARGEST_INTEGER:
        return Value(int(value), output_field=BigIntegerField())
    return Value(_to_double(value), output_field=FloatField())


def _to_double(value: float) -> float:
    """Return a number as a double; infinity for an integer that is too large."""
    return float(str(value))
