"""Scores as text."""

from __future__ import annotations

from typing import Any

FAILED, NOT_EVALUATED = "failed", "not_evaluated"
"""Statuses of a `MetricResult`, for processes without Django."""


def format_score(value: float | None) -> str:
    """Return a score with up to three decimals; an en dash for None."""
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def describe_score(score: Any) -> str:
    """Return a metric's score and its threshold in one line, or why there is no score.

    Args:
        score: an object with `metric`, `status`, `score`, `threshold` and `reason`.
    """
    if score.status == NOT_EVALUATED:
        return f"{score.metric}: {' '.join(score.reason.split())}"
    sign = "<" if score.status == FAILED else "≥"
    return f"{score.metric} {format_score(score.score)} {sign} {format_score(score.threshold)}"
