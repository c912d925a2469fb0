"""Scores as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evals_app.metrics import number_differences

FAILED, NOT_EVALUATED = "failed", "not_evaluated"
"""Statuses of a `MetricResult`, for processes without Django."""


DECIMALS = 3
LARGE = 1e16
"""Least number that is shown with an exponent: up to here, floats are exact integers."""

MAX_DIGITS = 17
"""Digits that tell any two floats near 1 apart."""


def format_apart(value: float, other: float | None, write: Callable[[float, int], str], digits: int) -> str:
    """Return a number with enough digits to tell it from the number that it is compared with.

    Args:
        other: the number that it is compared with; None: there is none.
        write: formats a number with so many digits.
        digits: the least number of digits.
    """
    for count in range(digits, MAX_DIGITS + 1):
        text = write(value, count)
        if other is None or value == other or text != write(other, count):
            return text
    return repr(value)


def format_score(value: float | None, other: float | None = None) -> str:
    """Return a score with up to three decimals, or with more to tell it from another; an en dash for None."""
    return "–" if value is None else format_apart(value, other, _write_decimals, DECIMALS)


def _write_decimals(value: float, decimals: int) -> str:
    if abs(value) >= LARGE:
        return repr(value)
    return f"{round(value, decimals) + 0.0:.{decimals}f}".rstrip("0").rstrip(".")  # + 0.0: -0 is 0


def describe_score(score: Any) -> str:
    """Return a metric's score and its threshold in one line, or why there is no score.

    A user's own function may return a status that contradicts score and threshold. Then no relation is shown.

    Args:
        score: an object with `metric`, `status`, `score`, `threshold` and `reason`.
    """
    reason = " ".join(score.reason.split())
    if score.status == NOT_EVALUATED:
        return f"{score.metric}: {reason}"
    has_failed = score.status == FAILED
    value, threshold = score.score, score.threshold
    value_text, threshold_text = format_score(value, threshold), format_score(threshold, value)
    if value is not None and threshold is not None and (value < threshold) == has_failed:
        text = f"{score.metric} {value_text} {'<' if has_failed else '≥'} {threshold_text}"
    else:
        status = "failed" if has_failed else "passed"
        text = f"{score.metric} {status} ({value_text}; threshold {threshold_text})"
    shows_reason = has_failed or number_differences.is_number_note(reason)
    return f"{text}: {reason}" if shows_reason and reason else text
