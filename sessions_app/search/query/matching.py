"""Terms about state, applied to values in memory: names and JSON values, such as the arguments of a call. Pure.

The rules are those of searches (`sessions_app.search.state_conditions`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.search.query.terms import Query, StateTerm, When
from sessions_app.store import scopes

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}

MISSING = object()
"""Stands for a value that does not exist."""


@lru_cache(maxsize=256)
def parse_condition(text: str) -> Query:
    """Parse a condition on present values: a query with nothing but comparisons, and keys that are missing.

    Raises:
        QueryError: the text is no query, or a term is about text, sessions, or values in the past.
    """
    query = parse(text)
    for term in query.terms:
        if not isinstance(term, StateTerm) or term.when in (When.EVER, When.NEVER):
            raise QueryError(
                f"Condition: {str(term)[:80]!r} is no comparison with a present value.",
                0,
                len(text),
                hint='Write name = value, such as city = "Oslo", retries > 3 or order_id missing.',
            )
    return query


def matches_values(query: Query, values: Mapping[str, Any]) -> bool:
    """Tell whether all terms of a condition (`parse_condition`) match values by their names."""
    return all(
        _matches_term(term, values) is not term.negated for term in query.terms if isinstance(term, StateTerm)
    )


def _matches_term(term: StateTerm, values: Mapping[str, Any]) -> bool:
    value = _follow_path(values.get(term.name, MISSING), term.path)
    if term.when is When.MISSING:
        return value is MISSING
    if value is MISSING or not term.op:
        return value is not MISSING
    if term.op == "~":
        return scopes.dumps(term.value)[1:-1].lower() in scopes.dumps(scopes.to_jsonable(value)).lower()
    if term.op in COMPARE:
        return _is_comparable(value, term.value) and COMPARE[term.op](value, term.value)
    return _is_equal(value, term.value) is (term.op == "=")


def _follow_path(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at a path of names and indexes; `MISSING` if there is none."""
    for step in path:
        if isinstance(step, int) and isinstance(value, list):
            value = value[step] if step < len(value) else MISSING
        else:
            value = value.get(step, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def _is_equal(value: Any, operand: Any) -> bool:
    """Tell whether two JSON values are equal; numbers of any type are, but true is not 1."""
    return isinstance(value, bool) is isinstance(operand, bool) and bool(value == operand)


def _is_comparable(value: Any, operand: Any) -> bool:
    return isinstance(value, str) if isinstance(operand, str) else _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
