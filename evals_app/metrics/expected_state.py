"""Expected state beside actual state, key by key. Pure.

A case may expect a state at its end and after each of its turns (`evalsets.content.expected_states`); no metric of ADK
reads it. Only the keys that are named are looked at; null says that the key is not there, or null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

STATE_MATCH = "devui_state_match"
"""The metric that compares them."""

EVALUATION_KEY = "__llm_request_key__"
"""A key that ADK's evaluation itself writes, anew for each call of a model: no agent means it."""

MISSING = object()


@dataclass(frozen=True)
class StateCheck:
    """One key that was expected. `turn` counts from 0; None: at the end. `actual` MISSING: it is not there."""

    path: str
    expected: Any
    actual: Any
    turn: int | None

    @property
    def matches(self) -> bool:
        """Tell whether the key has the value."""
        if self.actual is MISSING:
            return self.expected is None
        return json_equal(self.expected, self.actual)

    def as_json(self) -> dict[str, Any]:
        """Return {path, expected, actual, turn, matches}, without `actual` where the key is not there."""
        found = {} if self.actual is MISSING else {"actual": self.actual}
        return {
            "path": self.path,
            "expected": self.expected,
            **found,
            "turn": self.turn,
            "matches": self.matches,
        }


def check_state(expected: Json, actual: Json, turn: int | None = None) -> list[StateCheck]:
    """Return a check for every key that is expected."""
    return [StateCheck(key, value, actual.get(key, MISSING), turn) for key, value in expected.items()]


def matching_share(checks: Sequence[StateCheck]) -> float:
    """Return the share of checks that match, 0 to 1."""
    return sum(one.matches for one in checks) / len(checks)


def json_equal(left: Any, right: Any) -> bool:
    """Tell whether two JSON values are equal. Unlike Python, JSON tells true from 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)
