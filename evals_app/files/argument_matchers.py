"""Matchers of tool arguments in fixtures and expected tool calls, which ADK lacks: it compares with `==` only. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import regex

from evals_app.files.pairing import json_equal
from sessions_app.store import scopes

Json = Mapping[str, Any]

MAX_PATTERN = 1_000
"""Characters of a regular expression."""

EXPECTED = "devui_match"
"""Only member of an expected argument that has matchers in place of a value."""

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


def require_expected_arguments(arguments: Json) -> Json:
    """Return the arguments of an expected tool call if the matchers among them are valid.

    Raises:
        ValueError: names the argument and the rule.
    """
    for name, value in arguments.items():
        if not isinstance(value, Mapping) or EXPECTED not in value:
            continue
        if len(value) > 1 or not isinstance(value[EXPECTED], Mapping):
            raise ValueError(f"{name}: {EXPECTED} needs an object of matchers, and no member beside it")
        try:
            require_matchers(value[EXPECTED])
        except ValueError as error:
            raise ValueError(f"{name} {error}") from error
    return arguments


def has_matchers(arguments: Json | None) -> bool:
    """Tell whether any expected argument has matchers in place of a value."""
    return any(_is_matched(value) for value in (arguments or {}).values())


def fits_expected(expected: Json | None, arguments: Json | None) -> bool:
    """Tell whether the arguments of a call are those expected: the same names, with equal or fitting values."""
    if expected == arguments:
        return True
    if not has_matchers(expected):
        return False
    expected, arguments = expected or {}, arguments or {}
    return expected.keys() == arguments.keys() and all(
        fits_value(value, arguments[name]) for name, value in expected.items()
    )


def fits_value(expected: Any, value: Any) -> bool:
    """Tell whether an argument is the expected one: equal, or fitting its matchers."""
    if not _is_matched(expected):
        return bool(expected == value)
    return _fits_matchers(scopes.dumps(expected[EXPECTED]), scopes.dumps(value))


@lru_cache(maxsize=4096)
def _fits_matchers(matchers_json: str, value_json: str) -> bool:
    """Tell whether a value fits matchers. One that a regular expression cannot be matched with in time does not."""
    try:
        return matches_arguments({"": json.loads(matchers_json)}, {"": json.loads(value_json)})
    except TimeoutError:
        return False


def _is_matched(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {EXPECTED}
