"""Alignment of expected and actual tool calls and their arguments, by the metric's rules. Pure.

`ToolTrajectoryCriterion` (`google/adk/evaluation/eval_metrics.py`): EXACT requires the same calls in the same order,
IN_ORDER allows others between them, ANY_ORDER allows others and any order; arguments can be ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from evals_app.files.argument_matchers import fits_expected, fits_value, has_matchers
from evals_app.metrics.catalog import IGNORE_ARGS, MATCH_TYPE
from evals_app.metrics.criterion_options import option_value
from sessions_app.presentation import text_diff
from sessions_app.presentation.text_diff import DiffPiece

Call = Mapping[str, Any]
"""{name, args}, and whatever else it carries along"""

MISSING = object()
SHORT = 40
"""Maximum length of a value that is marked as a whole if it differs."""

MAX_ALIGNED_CALLS = 400
"""Longest list that is aligned at the least cost (quadratic); longer ones are aligned by position."""


class Fit(StrEnum):
    """Match of an expected and an actual call."""

    SAME = "same"
    ARGS = "args"
    MISSING = "missing"
    EXTRA = "extra"


@dataclass(frozen=True)
class MatchRules:
    """The rules of the tool trajectory metric."""

    match_type: str = "EXACT"
    ignore_args: bool = False

    @classmethod
    def of(cls, criterion: Any) -> MatchRules:
        """Return the rules of a configuration's criterion (a number has the defaults)."""
        return cls(option_value(criterion, MATCH_TYPE), bool(option_value(criterion, IGNORE_ARGS)))


@dataclass(frozen=True)
class Argument:
    """One argument on both sides; `expected` or `actual` is MISSING where the call lacks it."""

    name: str
    expected: Any
    actual: Any

    @property
    def same(self) -> bool:
        """Tell whether both sides have the same value, or the actual one fits the expected matchers."""
        return (
            self.expected is not MISSING
            and self.actual is not MISSING
            and fits_value(self.expected, self.actual)
        )

    @property
    def pieces(self) -> tuple[list[DiffPiece], list[DiffPiece]] | None:
        """Word difference of both values as JSON; None if they are equal, short, or one is missing."""
        if self.same or self.expected is MISSING or self.actual is MISSING:
            return None
        texts = [json.dumps(value, ensure_ascii=False) for value in (self.expected, self.actual)]
        return text_diff.compare_texts(*texts) if max(map(len, texts)) > SHORT else None

    @property
    def has_expected(self) -> bool:
        """Tell whether the expected call has this argument."""
        return self.expected is not MISSING

    @property
    def has_actual(self) -> bool:
        """Tell whether the actual call has this argument."""
        return self.actual is not MISSING


@dataclass(frozen=True)
class CallPair:
    """One row: an expected call, an actual one, or both. `wrong`: the rules do not allow it."""

    expected: Call | None
    actual: Call | None
    fit: Fit
    wrong: bool
    arguments: list[Argument] = field(default_factory=list)
    first: bool = False
    """It is the first divergence."""

    @property
    def name(self) -> str:
        """The tool."""
        return str((self.expected or self.actual or {}).get("name", ""))

    @property
    def says(self) -> str:
        """The match in words."""
        return {
            Fit.SAME: "same",
            Fit.ARGS: "different arguments" if self.wrong else "arguments ignored",
            Fit.MISSING: "missing",
            Fit.EXTRA: "not expected" if self.wrong else "extra, allowed",
        }[self.fit]


def align(
    expected: Sequence[Call], actual: Sequence[Call], rules: MatchRules | None = None
) -> list[CallPair]:
    """Align two lists of calls; the first divergence is marked."""
    rules = rules or MatchRules()
    pairs = (
        _pair_in_any_order(expected, actual)
        if rules.match_type == "ANY_ORDER"
        else _pair_in_order(expected, actual)
    )
    rows = [_make_pair(expected_call, actual_call, rules) for expected_call, actual_call in pairs]
    first = next((index for index, row in enumerate(rows) if row.wrong), None)
    if first is not None:
        rows[first] = replace(rows[first], first=True)
    return rows


Pairs = list[tuple[Call | None, Call | None]]


def _make_pair(expected: Call | None, actual: Call | None, rules: MatchRules) -> CallPair:
    arguments = _compare_arguments(expected, actual)
    if expected is None:
        return CallPair(expected, actual, Fit.EXTRA, rules.match_type == "EXACT", arguments)
    if actual is None:
        return CallPair(expected, actual, Fit.MISSING, True, arguments)
    same = fits_expected(expected.get("args"), actual.get("args"))
    return CallPair(
        expected, actual, Fit.SAME if same else Fit.ARGS, not (same or rules.ignore_args), arguments
    )


def _compare_arguments(expected: Call | None, actual: Call | None) -> list[Argument]:
    ours, theirs = (expected or {}).get("args") or {}, (actual or {}).get("args") or {}
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [Argument(name, ours.get(name, MISSING), theirs.get(name, MISSING)) for name in names]


def _pair_in_order(expected: Sequence[Call], actual: Sequence[Call]) -> Pairs:
    """Align at the least cost: equal calls are free, other arguments cost 1, an unpaired call costs 1."""
    if max(len(expected), len(actual)) > MAX_ALIGNED_CALLS:
        return _pair_by_position(expected, actual)
    costs = [[0] * (len(actual) + 1) for _ in range(len(expected) + 1)]
    for row in reversed(range(len(expected) + 1)):
        for column in reversed(range(len(actual) + 1)):
            steps = _iter_steps(costs, expected, actual, row, column)
            costs[row][column] = min((cost for cost, _, _ in steps), default=0)
    pairs: Pairs = []
    row = column = 0
    while row < len(expected) or column < len(actual):
        steps = _iter_steps(costs, expected, actual, row, column)
        _, next_row, next_column = min(steps, key=lambda step: step[0])
        expected_call = expected[row] if next_row > row else None
        pairs.append((expected_call, actual[column] if next_column > column else None))
        row, column = next_row, next_column
    return pairs


def _iter_steps(
    costs: list[list[int]], expected: Sequence[Call], actual: Sequence[Call], row: int, column: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (cost to the end, next row, next column) for pairing two calls, and for leaving one of them unpaired."""
    if row < len(expected) and column < len(actual):
        expected_call, actual_call = expected[row], actual[column]
        same_tool = expected_call.get("name") == actual_call.get("name")
        has_same_args = same_tool and fits_expected(expected_call.get("args"), actual_call.get("args"))
        cost = int(not has_same_args) if same_tool else 3
        yield cost + costs[row + 1][column + 1], row + 1, column + 1
    if row < len(expected):
        yield 1 + costs[row + 1][column], row + 1, column
    if column < len(actual):
        yield 1 + costs[row][column + 1], row, column + 1


def _pair_in_any_order(expected: Sequence[Call], actual: Sequence[Call]) -> Pairs:
    """Pair equal calls first, then those that fit matchers, then calls of one name; the others stay unpaired."""
    unpaired = list(actual)
    chosen: list[Call | None] = [None] * len(expected)
    indexes = sorted(range(len(expected)), key=lambda index: has_matchers(expected[index].get("args")))
    for same_arguments in (True, False):
        for index in indexes:
            call = expected[index]
            if chosen[index] is not None:
                continue
            for position, other in enumerate(unpaired):
                if other.get("name") == call.get("name") and (
                    not same_arguments or fits_expected(call.get("args"), other.get("args"))
                ):
                    chosen[index] = unpaired.pop(position)
                    break
    return [*zip(expected, chosen, strict=True), *((None, call) for call in unpaired)]


def _pair_by_position(expected: Sequence[Call], actual: Sequence[Call]) -> Pairs:
    pairs: Pairs = []
    for pair in zip_longest(expected, actual):
        expected_call, actual_call = pair
        if expected_call and actual_call and expected_call.get("name") != actual_call.get("name"):
            pairs += [(expected_call, None), (None, actual_call)]
        else:
            pairs.append(pair)
    return pairs
