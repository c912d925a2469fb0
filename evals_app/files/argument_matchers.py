"""Matchers of tool arguments in fixtures, which ADK lacks: its own `match_args` compares with `==` only. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from evals_app.files.pairing import json_equal

Json = Mapping[str, Any]

MAX_PATTERN = 1_000
"""Characters of a regular expression."""

MATCH_S = 1.0
"""Seconds for which a regular expression is matched with an argument."""


@dataclass(frozen=True)
class Matcher:
    """Kind of matcher.

    Attributes:
        expects: the value that it takes in a file, in words.
        is_valid: tells whether a value is one.
        matches: tells whether an argument (second) fits a valid value (first).
    """

    expects: str
    is_valid: Callable[[Any], bool]
    matches: Callable[[Any, Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_range(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 or value == [None, None]:
        return False
    low, high = value
    return all(end is None or _is_number(end) for end in value) and (None in value or low <= high)


def _is_in_range(limits: Sequence[float | None], value: Any) -> bool:
    low, high = limits
    return _is_number(value) and (low is None or low <= value) and (high is None or value <= high)


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > MAX_PATTERN:
        return False
    try:
        regex.compile(value)
    except (regex.error, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


def _matches_pattern(pattern: str, value: Any) -> bool:
    """Tell whether a text has a match.

    Raises:
        TimeoutError: matching took longer than `MATCH_S`.
    """
    return isinstance(value, str) and regex.search(pattern, value, timeout=MATCH_S) is not None


def _contains(expected: Any, value: Any) -> bool:
    """Tell whether an object has all expected members, recursively, or a list all expected items."""
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        return all(name in value and _contains(inner, value[name]) for name, inner in expected.items())
    if isinstance(expected, list) and isinstance(value, list):
        return _remove_items(expected, value) is not None
    return json_equal(expected, value)


def _has_same_items(expected: Sequence[Any], value: Any) -> bool:
    return isinstance(value, list) and _remove_items(expected, value) == []


def _remove_items(removed: Sequence[Any], items: Sequence[Any]) -> list[Any] | None:
    """Return `items` without one occurrence of each of `removed`; None if one is missing."""
    remaining = list(items)
    for item in removed:
        index = next((index for index, other in enumerate(remaining) if json_equal(item, other)), None)
        if index is None:
            return None
        del remaining[index]
    return remaining


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and value == value // 1,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}
"""Types of JSON, by JSON Schema's names."""

MATCHERS: Mapping[str, Matcher] = {
    "any": Matcher("true", lambda value: value is True, lambda _, value: True),
    "range": Matcher("[minimum, maximum], one of which may be null", _is_range, _is_in_range),
    "regex": Matcher(
        f"a regular expression of at most {MAX_PATTERN:,} characters", _is_pattern, _matches_pattern
    ),
    "subset": Matcher("an object or a list", lambda value: isinstance(value, dict | list), _contains),
    "type": Matcher(
        f"one of {', '.join(TYPES)}",
        lambda value: isinstance(value, str) and value in TYPES,
        lambda name, value: TYPES[name](value),
    ),
    "unordered": Matcher("a list", lambda value: isinstance(value, list), _has_same_items),
}
"""Matchers by their name in a file."""


def require_matchers(matchers: Json) -> Json:
    """Return the matchers of an argument, {name: value}, if they are valid.

    Raises:
        ValueError: a name is unknown, or a value is not one of its matcher.
    """
    if not matchers:
        raise ValueError(f"names no matcher: use one of {', '.join(MATCHERS)}")
    for name, value in matchers.items():
        if name not in MATCHERS:
            raise ValueError(f"has the unknown matcher {name!r}: use one of {', '.join(MATCHERS)}")
        if not MATCHERS[name].is_valid(value):
            raise ValueError(f"gives the matcher {name!r} a wrong value: use {MATCHERS[name].expects}")
    return matchers


def matches_arguments(matchers: Mapping[str, Json], arguments: Json) -> bool:
    """Tell whether a call has all named arguments, and each fits all of its matchers.

    Raises:
        TimeoutError: matching a regular expression took longer than `MATCH_S`.
    """
    return all(
        argument in arguments
        and all(MATCHERS[name].matches(value, arguments[argument]) for name, value in by_name.items())
        for argument, by_name in matchers.items()
    )
