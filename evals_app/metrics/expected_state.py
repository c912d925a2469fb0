"""Comparison of expected and actual state, key by key. Pure.

A case may expect a state at its end and after each turn (`files.content.expected_states`); ADK has no metric for it.
Only the expected keys are compared; null expects that the key is missing or null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals_app.files.pairing import json_equal

Json = Mapping[str, Any]

MISSING = object()


@dataclass(frozen=True)
class StateCheck:
    """One expected key. `turn` counts from 0; None: at the end. `actual` MISSING: the key does not exist."""

    path: str
    expected: Any
    actual: Any
    turn: int | None

    @property
    def matches(self) -> bool:
        """Tell whether the key has the expected value."""
        if self.actual is MISSING:
            return self.expected is None
        return json_equal(self.expected, self.actual)

    def as_json(self) -> dict[str, Any]:
        """Return {path, expected, actual, turn, matches}, without `actual` for a missing key."""
        actual = {} if self.actual is MISSING else {"actual": self.actual}
        return {
            "path": self.path,
            "expected": self.expected,
            **actual,
            "turn": self.turn,
            "matches": self.matches,
        }


def check_state(expected: Json, actual: Json, turn: int | None = None) -> list[StateCheck]:
    """Return a check for every expected key."""
    return [StateCheck(key, value, actual.get(key, MISSING), turn) for key, value in expected.items()]


def matching_share(checks: Sequence[StateCheck]) -> float:
    """Return the share of checks that match, 0 to 1."""
    return sum(check.matches for check in checks) / len(checks)
