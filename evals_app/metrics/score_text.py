"""Scores as text."""

from __future__ import annotations


def format_score(value: float | None) -> str:
    """Return a score with up to three decimals; an en dash for None."""
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")
